"""Collects statistics of item fields, one collector per kind of field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from trainer.datasets.fields import IGNORED, Item

_SMALL, _MEDIUM = 32**2, 96**2
"""Pixels: COCO's bounds of small and medium objects."""
_MOST_SIZES = 5


class Collector(Protocol):
    """Receives every usable item, then returns a result; None if no item has its fields."""

    name: str

    def see(self, item: Item) -> None:
        """Adds an item."""

    def result(self, class_names: Sequence[str]) -> dict[str, Any] | None:
        """The result as plain data."""


class Sizes:
    """Heights, widths and channels of the images, at full resolution."""

    name = "images"

    def __init__(self) -> None:
        self._sizes: Counter[tuple[int, int]] = Counter()
        self._channels: Counter[int] = Counter()

    def see(self, item: Item) -> None:
        image = item.get("image")
        if image is not None:
            height, width = item.get("size", np.array(image.shape[:2]))
            self._sizes[int(height), int(width)] += 1
            self._channels[image.shape[2]] += 1

    def result(self, class_names: Sequence[str]) -> dict[str, Any] | None:
        if not self._sizes:
            return None
        every = np.array(list(self._sizes.elements()))
        common = {f"{width}x{height}": count for (height, width), count in self._sizes.most_common(_MOST_SIZES)}
        return {
            "width": spread(every[:, 1]),
            "height": spread(every[:, 0]),
            "sizes": len(self._sizes),
            "most common": common,
            "channels": {str(channels): count for channels, count in sorted(self._channels.items())},
        }


class Boxes:
    """Number and sizes of the boxes, in pixels of the original image."""

    name = "boxes"

    def __init__(self) -> None:
        self._extents: list[np.ndarray] = []
        self._areas: list[np.ndarray] = []
        self._counts: list[int] = []
        self._crowds = 0

    def see(self, item: Item) -> None:
        boxes = item.get("boxes")
        if boxes is None:
            return
        height, width = item["size"] if "size" in item else item["image"].shape[:2]
        extents = (boxes[:, 2:] - boxes[:, :2]) * (width / item["image"].shape[1], height / item["image"].shape[0])
        self._extents.append(extents)
        self._areas.append(extents.prod(1) / (height * width))
        self._counts.append(len(boxes))
        self._crowds += int(item["crowd"].sum()) if "crowd" in item else 0

    def result(self, class_names: Sequence[str]) -> dict[str, Any] | None:
        if not self._counts:
            return None
        extents, counts = np.concatenate(self._extents), np.array(self._counts)
        found: dict[str, Any] = {"boxes": len(extents), "crowds": self._crowds, "per image": spread(counts)}
        found["images without"] = int((counts == 0).sum())
        if len(extents):
            pixels = extents.prod(1)
            found |= {
                "width": spread(extents[:, 0]),
                "height": spread(extents[:, 1]),
                "fraction of the image": spread(np.concatenate(self._areas)),
                "small (below 32x32)": int((pixels < _SMALL).sum()),
                "medium": int(((pixels >= _SMALL) & (pixels < _MEDIUM)).sum()),
                "large (from 96x96)": int((pixels >= _MEDIUM).sum()),
            }
        return found


class Classes:
    """Number of occurrences of each class: items of `label`, boxes of `labels`, pixels of `mask`."""

    name = "classes"

    def __init__(self) -> None:
        self._counts: dict[str, Counter[int]] = {}

    def see(self, item: Item) -> None:
        for field, unit in (("label", "items"), ("labels", "boxes"), ("mask", "pixels")):
            if field in item:
                counts = self._counts.setdefault(unit, Counter())
                values, numbers = np.unique(item[field], return_counts=True)
                counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
        if "labels_hot" in item:
            present = np.flatnonzero(item["labels_hot"])
            self._counts.setdefault("items", Counter()).update(present.tolist())

    def result(self, class_names: Sequence[str]) -> dict[str, Any] | None:
        if not self._counts:
            return None
        return {unit: self._named(unit, counts, class_names) for unit, counts in self._counts.items()}

    @staticmethod
    def _named(unit: str, counts: Counter[int], class_names: Sequence[str]) -> dict[str, int]:
        names = {number: name for number, name in enumerate(class_names)}
        if unit == "pixels":
            names[IGNORED] = "(ignored)"
        numbers = sorted(set(counts) | (set(range(len(class_names))) if unit != "pixels" else set()))
        return {names.get(number, str(number)): counts[number] for number in numbers}


class Tokens:
    """Lengths of texts."""

    name = "texts"

    def __init__(self) -> None:
        self._lengths: list[int] = []

    def see(self, item: Item) -> None:
        if "tokens" in item:
            self._lengths.append(len(item["tokens"]))

    def result(self, class_names: Sequence[str]) -> dict[str, Any] | None:
        return {"tokens": sum(self._lengths), "length": spread(np.array(self._lengths))} if self._lengths else None


class Numbers:
    """Ranges of the numbers in tables, and of the scaled targets of series."""

    name = "numbers"

    def __init__(self) -> None:
        self._values: dict[str, list[np.ndarray]] = {}

    def see(self, item: Item) -> None:
        for field in ("features", "value"):
            if field in item:
                self._values.setdefault(field, []).append(item[field])
        self._values.setdefault("future", []).extend(item.get("future", ()))

    def result(self, class_names: Sequence[str]) -> dict[str, Any] | None:
        known = {field: rows for field, rows in self._values.items() if rows}
        if not known:
            return None
        found = {}
        for field, rows in known.items():
            columns = np.stack(rows).reshape(len(rows), -1)
            for place, column in enumerate(columns.T):
                found[f"{field}[{place}]" if columns.shape[1] > 1 else field] = spread(column)
        return found


def spread(values: np.ndarray) -> dict[str, float]:
    """Minimum, median, mean and maximum."""
    numbers = np.asarray(values, np.float64)
    found = {"minimum": numbers.min(), "median": np.median(numbers), "mean": numbers.mean(), "maximum": numbers.max()}
    return {name: round(float(value), 4) for name, value in found.items()}


COLLECTORS: tuple[type[Collector], ...] = (Sizes, Classes, Boxes, Tokens, Numbers)

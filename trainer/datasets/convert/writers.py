"""Writers of COCO, Pascal VOC and YOLO: call `begin` for each split, `write` for each image, and `close` at the end.

Splits have names such as train and val; "" means a data set without splits. Annotations that a format can't represent
are counted in `lost`, by how they were handled.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import yaml

from trainer.datasets.convert.annotated_image import Annotated

_DECIMALS = 6
"""Decimal places of coordinates: more than annotations have, fewer than rounding errors affect."""


class Writer(Protocol):
    """A writer of a format; `images` is the folder for images."""

    images: Path
    lost: Counter[str]

    def __init__(self, folder: Path, class_names: Sequence[str]) -> None: ...

    def begin(self, split: str) -> None:
        """Starts a split; `images` becomes its folder."""

    def write(self, one: Annotated) -> int:
        """Adds an image; returns the number of its boxes in this format."""

    def close(self) -> None:
        """Writes the files that cover all images."""


class CocoWriter:
    """`annotations.json` next to the folder `images`, or `annotations/instances_SPLIT.json`; ids count from 1."""

    def __init__(self, folder: Path, class_names: Sequence[str]) -> None:
        self.folder, self.images = folder, folder / "images"
        self.lost: Counter[str] = Counter()
        self._categories = [{"id": number, "name": name} for number, name in enumerate(class_names, 1)]
        self._contents: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def begin(self, split: str) -> None:
        self.images = self.folder / "images" / split
        self._images: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []
        self._contents[split] = {
            "images": self._images, "annotations": self._annotations, "categories": self._categories
        }  # fmt: skip

    def write(self, one: Annotated) -> int:
        height, width = one.size
        image_id = len(self._images) + 1
        self._images.append({"id": image_id, "file_name": one.name, "height": height, "width": width})
        for box, label, crowd, area in zip(one.boxes, one.labels, one.crowd, one.areas, strict=True):
            x_min, y_min, x_max, y_max = map(float, box)
            wide, high = round(x_max - x_min, _DECIMALS), round(y_max - y_min, _DECIMALS)
            self._annotations.append(
                {
                    "id": len(self._annotations) + 1,
                    "image_id": image_id,
                    "category_id": int(label) + 1,
                    "bbox": [round(x_min, _DECIMALS), round(y_min, _DECIMALS), wide, high],
                    "area": round(wide * high if np.isnan(area) else float(area), _DECIMALS),
                    "iscrowd": int(crowd),
                }
            )
        return len(one.boxes)

    def close(self) -> None:
        for split, content in self._contents.items():
            path = self.folder / (f"annotations/instances_{split}.json" if split else "annotations.json")
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")


class VocWriter:
    """`Annotations/<image>.xml` next to the folder `JPEGImages`; crowds become difficult objects."""

    def __init__(self, folder: Path, class_names: Sequence[str]) -> None:
        self.folder, self.images = folder, folder / "JPEGImages"
        self.lost: Counter[str] = Counter()
        self._class_names = class_names
        self._names: dict[str, list[str]] = {}

    def begin(self, split: str) -> None:
        self._split = split
        self._names[split] = []

    def write(self, one: Annotated) -> int:
        root = ElementTree.Element("annotation")
        _add(root, "filename", one.name)
        size = ElementTree.SubElement(root, "size")
        _add(size, "width", one.size[1])
        _add(size, "height", one.size[0])
        _add(size, "depth", 3)
        for box, label, crowd in zip(one.boxes, one.labels, one.crowd, strict=True):
            element = ElementTree.SubElement(root, "object")
            _add(element, "name", self._class_names[int(label)])
            _add(element, "difficult", int(crowd))
            edges = ElementTree.SubElement(element, "bndbox")
            for name, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True):
                _add(edges, name, _plain(float(value)))
        self.lost["crowds became difficult objects"] += int(one.crowd.sum())
        stem = Path(one.name).with_suffix("")
        self._names[self._split].append(str(stem))
        path = self.folder / "Annotations" / f"{stem}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.indent(root)
        path.write_text(ElementTree.tostring(root, encoding="unicode") + "\n", encoding="utf-8")
        return len(one.boxes)

    def close(self) -> None:
        for split, names in self._names.items():
            path = self.folder / "ImageSets" / "Main" / f"{split or 'all'}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


class YoloWriter:
    """`labels/<image>.txt` next to the folder `images`, each with a folder per split, and `data.yaml`; crowds are left
    out.
    """

    def __init__(self, folder: Path, class_names: Sequence[str]) -> None:
        self.folder, self.images = folder, folder / "images"
        self.lost: Counter[str] = Counter()
        self._class_names = class_names
        self._folders: dict[str, str] = {}

    def begin(self, split: str) -> None:
        self.images, self._labels = self.folder / "images" / split, self.folder / "labels" / split
        self._folders[split or "train"] = f"images/{split}".rstrip("/")

    def write(self, one: Annotated) -> int:
        height, width = one.size
        lines = []
        for (x_min, y_min, x_max, y_max), label in zip(one.boxes[~one.crowd], one.labels[~one.crowd], strict=True):
            center = (x_min + x_max) / 2 / width, (y_min + y_max) / 2 / height
            shares = (*center, (x_max - x_min) / width, (y_max - y_min) / height)
            lines.append(" ".join([str(label), *(f"{share:.12g}" for share in shares)]) + "\n")
        self.lost["crowds left out"] += int(one.crowd.sum())
        path = (self._labels / one.name).with_suffix(".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")
        return len(lines)

    def close(self) -> None:
        names = {number: name for number, name in enumerate(self._class_names)}
        content = {"path": ".", **self._folders, "names": names}
        (self.folder / "data.yaml").write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "utf-8")


def _add(parent: ElementTree.Element, tag: str, value: object) -> None:
    ElementTree.SubElement(parent, tag).text = str(value)


def _plain(value: float) -> str:
    """A number without a trailing point or exponent."""
    return f"{value:.{_DECIMALS}f}".rstrip("0").rstrip(".")


WRITERS: dict[str, type[Writer]] = {"coco": CocoWriter, "voc": VocWriter, "yolo": YoloWriter}

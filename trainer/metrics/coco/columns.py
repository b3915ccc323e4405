"""The input of an evaluation as columns: ground truths, detections, and their data set.

Boxes are (x, y, width, height) in pixels and float64, as in COCO files. Images and categories are identified by the ids
of the data set. Masks are compressed RLE, `{"size": [height, width], "counts": bytes}`, as in pycocotools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainer import TrainerError

Kind: TypeAlias = Literal["bbox", "segm", "keypoints"]
Mask: TypeAlias = dict[str, Any]
Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Booleans: TypeAlias = NDArray[np.bool_]


class Columns:
    """Base of truths and detections: rows that are checked once, and can be selected or concatenated."""

    image: Integers

    def __len__(self) -> int:
        return len(self.image)

    def take(self, rows: Integers) -> Any:
        """The same columns with these rows, in this order."""
        return type(self)(**{name: _take(column, rows) for name, column in self._columns().items()})

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> Any:
        """Concatenates the rows of all parts. A column must exist in all of them or in none."""
        present = {frozenset(part._columns()) for part in parts if len(part)}
        if len(present) > 1:
            raise TrainerError(
                f"can't concatenate {cls.__name__.lower()} with different columns",
                found=" and ".join(sorted(str(sorted(names)) for names in present)),
                expected="the same columns in each",
            )
        parts = [part for part in parts if len(part)] or list(parts[:1])
        return cls(**{name: _join([part._columns()[name] for part in parts]) for name in parts[0]._columns()})

    def _columns(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in values.items() if value is not None}

    def _check(self, shapes: dict[str, tuple[int | None, ...]]) -> None:
        """Checks that every column has one row per image id, and that values are finite."""
        what = type(self).__name__.lower()
        for name, column in self._columns().items():
            if len(column) != len(self.image):
                raise TrainerError(
                    f"the columns of the {what} have different lengths",
                    found=f"{len(column)} rows of {name}",
                    expected=f"{len(self.image)}, as many as of image",
                )
            shape = shapes.get(name, ())
            if name != "masks" and (
                column.ndim != 1 + len(shape)
                or any(want not in (None, have) for want, have in zip(shape, column.shape[1:], strict=True))
            ):
                raise TrainerError(
                    f"the column {name} of the {what} has another shape",
                    found=list(column.shape),
                    expected=[len(self), *("K" if size is None else size for size in shape)],
                )
            if name != "masks" and column.dtype.kind == "f" and not np.isfinite(column).all():
                row = int(np.argwhere(~np.isfinite(column))[0][0])
                raise TrainerError(
                    f"a value of the {what} is not finite",
                    where=f"row {row} (image {self.image[row]})",
                    found=f"{name} {column[row].tolist()}",
                    expected="finite numbers",
                    hint="NaN or infinity usually means that training has diverged.",
                )


@dataclass(frozen=True, eq=False)
class Truths(Columns):
    """The ground truths of a data set, one row each.

    Args:
        image, category: ids, int64 [N].
        area: float64 [N], in pixels, for the ranges small, medium and large.
        crowd: bool [N]; a crowd region can match many detections, which are then ignored.
        boxes: float64 [N, 4] (x, y, width, height); for `bbox` and `keypoints`.
        masks: N compressed RLE; for `segm`.
        keypoints: float64 [N, K, 3] (x, y, visibility 0, 1 or 2); for `keypoints`. A row without a labeled one is
            ignored.
        annotation: ids, int64 [N]. As in pycocotools, a match with the id 0 counts as none.
    """

    image: Integers
    category: Integers
    area: Floats
    crowd: Booleans
    boxes: Floats | None = None
    masks: list[Mask] | None = None
    keypoints: Floats | None = None
    annotation: Integers | None = None

    def __post_init__(self) -> None:
        self._check({"boxes": (4,), "keypoints": (None, 3)})

    @cached_property
    def is_ignored(self) -> Booleans:
        """Truths that may be missed: crowds, and people without a labeled keypoint (for keypoints only)."""
        return self.crowd if self.keypoints is None else self.crowd | ~(self.keypoints[:, :, 2] > 0).any(axis=1)


@dataclass(frozen=True, eq=False)
class Detections(Columns):
    """The detections of a model, one row each: as `Truths`, with a score instead of the crowd flag.

    Args:
        score: float64 [N]. Among equal scores in an image, the earlier row comes first.
        area: float64 [N]; `area_of` computes it as pycocotools does.
        keypoints: float64 [N, K, 3]; the third number is ignored.
    """

    image: Integers
    category: Integers
    score: Floats
    area: Floats
    boxes: Floats | None = None
    masks: list[Mask] | None = None
    keypoints: Floats | None = None

    def __post_init__(self) -> None:
        self._check({"boxes": (4,), "keypoints": (None, 3)})


@dataclass(frozen=True, eq=False)
class Scene:
    """The images and categories to evaluate. Truths and detections of other categories are ignored.

    Args:
        images, categories: ids, int64, sorted, each once.
        names: names of the categories, in their order.
    """

    images: Integers
    categories: Integers
    names: tuple[str, ...]


def area_of(boxes: Floats | None = None, masks: list[Mask] | None = None, keypoints: Floats | None = None) -> Floats:
    """The areas of detections, float64 [N], from the first available of boxes, masks, the bounding box of keypoints.

    pycocotools' `loadRes` uses the same order: mask results with a box are sorted into small, medium and large by that
    box.
    """
    if boxes is not None:
        return boxes[:, 2] * boxes[:, 3]
    if masks is not None:
        from trainer.metrics.coco.masks import mask_areas

        return mask_areas(masks)
    assert keypoints is not None, "something has an area"
    x, y = keypoints[:, :, 0], keypoints[:, :, 1]
    return (x.max(axis=1) - x.min(axis=1)) * (y.max(axis=1) - y.min(axis=1))


def missing_column(what: str) -> TrainerError:
    """The error for an evaluation kind without the needed column."""
    return TrainerError(f"this kind of evaluation needs the column {what} in truths and detections")


def _take(column: Any, rows: Integers) -> Any:
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column[rows]


def _join(columns: list[Any]) -> Any:
    if isinstance(columns[0], list):
        return [item for column in columns for item in column]
    return np.concatenate(columns)

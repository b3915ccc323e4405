"""The fields of items and batches that everybody knows: their names, their axes and dtypes, what fills them up.

An item is a dictionary of arrays, a batch likewise; `FIELDS` says what both mean by a name. A field of any other name
(a column of a table, say) may be any array: its items are stacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainer import TrainerError

Item = dict[str, np.ndarray]
Batch = dict[str, np.ndarray]

HEIGHT, WIDTH, CHANNELS = "height", "width", "channels"
OBJECTS, POINTS, CLASSES, TOKENS = "objects", "points", "classes", "tokens"

TARGET = "target"
"""May be of another size than `image` (super-resolution, say)."""

IGNORED = 255
"""The class of pixels of a `mask` that don't count."""

NO_LABEL = -1
"""The class in `labels` of a row of `boxes` that only fills the batch."""

WEIGHT, LENGTH = "weight", "length"
"""What the loader adds: a row's weight (0: it only fills the batch), and how many of a row's `tokens` are its own."""


@dataclass(frozen=True, slots=True)
class Field:
    """What stands under one name.

    Args:
        name: the key in items and batches.
        axes: the item's axes: a name for one whose extent differs between data sets or items, else the extent.
        dtypes: those that it may have.
        fill: what fills up a batch where items differ in an extent.
        meaning: in words.
    """

    name: str
    axes: tuple[str | int, ...]
    dtypes: tuple[str, ...]
    fill: int
    meaning: str

    @property
    def is_image(self) -> bool:
        """Whether batches have the channels before height and width."""
        return self.axes[-1:] == (CHANNELS,)

    def fits(self, value: np.ndarray) -> bool:
        """Whether an item's array has the axes and a dtype of this field."""
        return (
            value.dtype.name in self.dtypes
            and value.ndim == len(self.axes)
            and all(
                isinstance(axis, str) or axis == extent for axis, extent in zip(self.axes, value.shape, strict=True)
            )
        )

    def __str__(self) -> str:
        return f"{' or '.join(self.dtypes)} [{', '.join(map(str, self.axes))}]"


_PIXELS = ("uint8", "float32")

FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("image", (HEIGHT, WIDTH, CHANNELS), _PIXELS, 0, "a picture, 1 channel or 3; 0 to 255 as uint8"),
        Field(TARGET, (HEIGHT, WIDTH, CHANNELS), _PIXELS, 0, "the picture that `image` is to become"),
        Field("label", (), ("int64",), 0, "the class"),
        Field("labels_hot", (CLASSES,), ("float32",), 0, "how far each class applies, 0 to 1"),
        Field("mask", (HEIGHT, WIDTH), ("uint8", "int32"), IGNORED, "the class of each pixel; 255: it does not count"),
        Field("boxes", (OBJECTS, 4), ("float32",), 0, "x_min, y_min, x_max, y_max in pixels of the item's image"),
        Field("labels", (OBJECTS,), ("int64",), NO_LABEL, "the class of each box; -1: the row is none"),
        Field("crowd", (OBJECTS,), ("bool",), 0, "whether a box is around a crowd"),
        Field("area", (OBJECTS,), ("float32",), 0, "the annotation's own area in pixels, for evaluation"),
        Field("masks", (OBJECTS, HEIGHT, WIDTH), ("bool",), 0, "which pixels belong to each box's object"),
        Field("keypoints", (OBJECTS, POINTS, 3), ("float32",), 0, "x, y and visibility (0, 1, 2) of points"),
        Field("image_id", (), ("int64",), 0, "the data set's own number of the image"),
        Field("size", (2,), ("int64",), 0, "height and width of the image as it was"),
        Field(
            "placement",
            (3, 3),
            ("float32",),
            0,
            "an affine map of (x, y, 1) to the image as it was",
        ),
        Field("tokens", (TOKENS,), ("int32",), 0, "a text as numbers; the loader adds their `length` (int64)"),
    )
}


def check_item(item: Item, *, where: str | None = None) -> None:
    """Refuse what is not of its field's form.

    Raises:
        TrainerError: a field has another dtype or other axes than `FIELDS` says, or fields of one item differ in the
            number of objects, or in height or width.
    """
    extents: dict[str, tuple[str, int]] = {}
    for name, value in item.items():
        field = FIELDS.get(name)
        if field is None:
            continue
        if not isinstance(value, np.ndarray | np.generic) or not field.fits(value):
            raise TrainerError(
                f"the field {name!r} is not what its name says", where=where, found=form(value), expected=field
            )
        for axis, extent in zip(field.axes, value.shape, strict=True):
            if axis not in (OBJECTS, HEIGHT, WIDTH) or name == TARGET:
                continue
            other, known = extents.setdefault(axis, (name, extent))
            if extent != known:
                raise TrainerError(
                    f"{name!r} and {other!r} of one item don't belong together",
                    where=where,
                    found=f"{axis}: {extent} and {known}",
                    expected="the same in both",
                )


def form(value: object) -> str:
    """Dtype and shape, for messages."""
    array = np.asarray(value)
    return f"{array.dtype}{list(array.shape)}"


def signature(item: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Each field's dtype and shape, for messages and comparisons."""
    return {key: form(value) for key, value in item.items()}


def describe_fields() -> Sequence[tuple[str, str, str]]:
    """(name, form in an item, meaning) of every field, for the documentation."""
    return [(field.name, str(field), field.meaning) for field in FIELDS.values()]

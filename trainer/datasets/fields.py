"""The standard fields of items and batches: names, axes, dtypes and padding values.

Items and batches are dictionaries of arrays; `FIELDS` defines the names. A field with another name (a table column,
say) may be any array and is stacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trainer import TrainerError

Item = dict[str, np.ndarray]
Batch = dict[str, np.ndarray]

HEIGHT, WIDTH, CHANNELS = "height", "width", "channels"
OBJECTS, POINTS, CLASSES, TOKENS = "objects", "points", "classes", "tokens"

TARGET = "target"
"""Name of the target image, whose size may differ from that of `image` (for super-resolution)."""

IGNORED = 255
"""The ignored class of a `mask`."""

NO_LABEL = -1
"""The class in `labels` of padding rows of `boxes`."""

WEIGHT, LENGTH = "weight", "length"
"""Fields that the loader adds: a row's weight (0: padding), and the number of tokens before padding."""


@dataclass(frozen=True, slots=True)
class Field:
    """The definition of a field.

    Args:
        name: the key in items and batches.
        axes: axes of the item: a name for a variable extent, otherwise the extent.
        dtypes: allowed dtypes.
        fill: padding value for items of different extents.
        meaning: description.
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
        Field("image", (HEIGHT, WIDTH, CHANNELS), _PIXELS, 0, "an image with 1 or 3 channels; 0 to 255 as uint8"),
        Field(TARGET, (HEIGHT, WIDTH, CHANNELS), _PIXELS, 0, "the target image of `image`"),
        Field("label", (), ("int64",), 0, "the class"),
        Field("labels_hot", (CLASSES,), ("float32",), 0, "the probability of each class, 0 to 1"),
        Field("mask", (HEIGHT, WIDTH), ("uint8", "int32"), IGNORED, "the class of each pixel; 255: ignored"),
        Field("boxes", (OBJECTS, 4), ("float32",), 0, "x_min, y_min, x_max, y_max in pixels of the item's image"),
        Field("labels", (OBJECTS,), ("int64",), NO_LABEL, "the class of each box; -1: padding"),
        Field("crowd", (OBJECTS,), ("bool",), 0, "whether the box contains a crowd"),
        Field("area", (OBJECTS,), ("float32",), 0, "the area in the annotation in pixels, for evaluation"),
        Field("masks", (OBJECTS, HEIGHT, WIDTH), ("bool",), 0, "the pixels of each box's object"),
        Field("keypoints", (OBJECTS, POINTS, 3), ("float32",), 0, "x, y and visibility (0, 1, 2) of points"),
        Field("image_id", (), ("int64",), 0, "the id of the image in the data set's files"),
        Field("size", (2,), ("int64",), 0, "height and width of the original image"),
        Field(
            "placement",
            (3, 3),
            ("float32",),
            0,
            "an affine map of (x, y, 1) to the original image",
        ),
        Field("tokens", (TOKENS,), ("int32",), 0, "a text as token numbers; the loader adds their `length` (int64)"),
    )
}


def check_item(item: Item, *, where: str | None = None) -> None:
    """Checks the form of an item's fields.

    Raises:
        TrainerError: a field differs in dtype or axes from `FIELDS`, or fields of one item differ in the number of
            objects, in height or width.
    """
    extents: dict[str, tuple[str, int]] = {}
    for name, value in item.items():
        field = FIELDS.get(name)
        if field is None:
            continue
        if not isinstance(value, np.ndarray | np.generic) or not field.fits(value):
            raise TrainerError(
                f"the field {name!r} has an invalid form", where=where, found=form(value), expected=field
            )
        for axis, extent in zip(field.axes, value.shape, strict=True):
            if axis not in (OBJECTS, HEIGHT, WIDTH) or name == TARGET:
                continue
            other, known = extents.setdefault(axis, (name, extent))
            if extent != known:
                raise TrainerError(
                    f"the fields {name!r} and {other!r} of one item don't match",
                    where=where,
                    found=f"{axis}: {extent} and {known}",
                    expected="the same extent in both",
                )


def form(value: object) -> str:
    """Returns the dtype and shape of a value, for messages."""
    array = np.asarray(value)
    return f"{array.dtype}{list(array.shape)}"


def signature(item: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Each field's dtype and shape, for messages and comparisons."""
    return {key: form(value) for key, value in item.items()}

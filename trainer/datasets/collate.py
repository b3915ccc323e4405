"""Collates items into a batch: stacks them along a new first axis and pads them if they differ in size.

Batches are padded to few sizes, because a training step is compiled for each size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import (
    FIELDS,
    HEIGHT,
    LENGTH,
    OBJECTS,
    TOKENS,
    WIDTH,
    Batch,
    Field,
    Item,
    check_item,
    form,
    signature,
)

LEAST_ROOM = 8
"""Minimum number of objects or tokens per item to which batches are padded."""

Shapes = dict[str, tuple[tuple[int, ...], np.dtype]]
"""Shape and dtype of each field in memory: images are [B, H, W, C]."""

Where = Callable[[int], str | None]


@dataclass(frozen=True, slots=True)
class Collation:
    """The sizes to which batches are padded.

    Args:
        objects: boxes per item; None: `least_objects`, or the next power of two if a batch needs more.
        tokens: tokens per item; None: the first of `lengths` that fits, or without them the next power of two, at least
            8.
        image_sizes: allowed (height, width) of batches of images of different sizes; the first that fits is used;
            empty: all images of a batch must have the same size.
        least_objects: minimum boxes per item if `objects` is None, so that batches have one shape.
        lengths: allowed numbers of tokens, in increasing order, if `tokens` is None.
    """

    objects: int | None = None
    tokens: int | None = None
    image_sizes: tuple[tuple[int, int], ...] = ()
    least_objects: int | None = None
    lengths: tuple[int, ...] = ()

    def room(self, axes: Sequence[str | int], extents: Sequence[Sequence[int]]) -> list[int | None]:
        """Returns the padded extent of each axis for items with these extents; None for an axis that doesn't fit."""
        found = [self._room(axis, own) for axis, own in zip(axes, extents, strict=True)]
        if HEIGHT in axes and self.image_sizes:
            places = [axes.index(HEIGHT), axes.index(WIDTH)]
            largest = [max(extents[place]) for place in places]
            fitting = (size for size in self.image_sizes if size[0] >= largest[0] and size[1] >= largest[1])
            for place, extent in zip(places, next(fitting, (None, None)), strict=True):
                found[place] = extent
        return found

    def _room(self, axis: str | int, extents: Sequence[int]) -> int | None:
        most = max(extents)
        if axis in (OBJECTS, TOKENS):
            room = self.objects if axis == OBJECTS else self.tokens
            if room is None and axis == TOKENS and self.lengths:
                return next((length for length in self.lengths if length >= most), None)
            if room is None:
                least = (self.least_objects if axis == OBJECTS else None) or LEAST_ROOM
                return least if most <= least else 1 << (most - 1).bit_length()
            return room if most <= room else None
        return most if min(extents) == most else None


FIT = Collation()


def collate(items: Sequence[Item], collation: Collation = FIT, *, where: Where = lambda row: None) -> Batch:
    """Collates items into one batch; `where` returns the origin of a row's item.

    Raises:
        TrainerError: items differ in fields, dtypes or unpadded extents, have more objects or tokens than fit, or a
            field has an invalid form (see `FIELDS`).
    """
    shapes = batch_shapes(items, collation, where=where)
    arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()}
    fill(arrays, items)
    return as_batch(arrays)


def batch_shapes(items: Sequence[Item], collation: Collation = FIT, *, where: Where = lambda row: None) -> Shapes:
    """The arguments of `fill` for these items; raises as `collate` does."""
    first = items[0]
    for row, item in enumerate(items):
        check_item(item, where=where(row))
        if item.keys() != first.keys():
            raise _differ(item, first, where(row))
    shapes: Shapes = {}
    for name, value in first.items():
        axes = _axes(name, value)
        dtype = np.asarray(value).dtype
        for row, item in enumerate(items):
            if np.ndim(item[name]) != len(axes) or np.asarray(item[name]).dtype != dtype:
                raise _differ(item, first, where(row))
        found = [[np.shape(item[name])[place] for item in items] for place in range(len(axes))]
        extents = [len(items)]
        for axis, own, extent in zip(axes, found, collation.room(axes, found), strict=True):
            if extent is None:
                raise _no_room(name, axis, items, own, collation, where)
            extents.append(extent)
        shapes[name] = tuple(extents), dtype
        if TOKENS in axes:
            shapes[LENGTH] = (len(items),), np.dtype(np.int64)
    return shapes


def fill(arrays: Mapping[str, np.ndarray], items: Sequence[Item]) -> None:
    """Writes the items to arrays of the shapes from `batch_shapes`."""
    for name, array in arrays.items():
        if name == LENGTH and name not in items[0]:
            array[:] = [len(item["tokens"]) for item in items]
            continue
        field = FIELDS.get(name)
        for row, item in enumerate(items):
            value = item[name]
            if field is not None and value.shape != array.shape[1:]:
                array[row] = field.fill
            place: tuple[int | slice, ...] = (row, *(slice(extent) for extent in np.shape(value)))
            array[place] = value


def as_batch(arrays: Mapping[str, np.ndarray]) -> Batch:
    """Views of the arrays that `fill` has written, with the axes of a batch: images [B, C, H, W]."""
    return {name: _channels_first(array) if _is_image(name) else array for name, array in arrays.items()}


def row_of(batch: Mapping[str, np.ndarray], row: int) -> Item:
    """A row of a batch as an item: images [H, W, C]. Includes padding."""
    return {
        name: array[row].transpose(1, 2, 0) if _is_image(name) and array.ndim == 4 else array[row]
        for name, array in batch.items()
    }


def _channels_first(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2)


def _is_image(name: str) -> bool:
    return name in FIELDS and FIELDS[name].is_image


def _axes(name: str, value: np.ndarray) -> tuple[str | int, ...]:
    field: Field | None = FIELDS.get(name)
    return np.shape(value) if field is None else field.axes


def _differ(item: Item, first: Item, where: str | None) -> TrainerError:
    return TrainerError(
        "items of one batch differ in fields, shapes or dtypes",
        where=where,
        found=signature(item),
        expected=signature(first),
    )


def _no_room(
    name: str, axis: str | int, items: Sequence[Item], found: Sequence[int], collation: Collation, where: Where
) -> TrainerError:
    if axis in (OBJECTS, TOKENS):
        room = collation.objects if axis == OBJECTS else collation.tokens or max(collation.lengths)
        key = "length_steps" if axis == TOKENS and collation.tokens is None else f"max_{axis}"
        return TrainerError(
            f"an item has more {axis} than a batch can hold",
            where=where(int(np.argmax(found))),
            found=f"{max(found)} {axis}",
            expected=f"at most {room}",
            hint=f"Raise data.{key}, or remove it: batches then adapt to their items.",
        )
    if axis in (HEIGHT, WIDTH) and collation.image_sizes:
        return TrainerError(
            "the images of a batch are larger than all of data.image_sizes",
            where=where(int(np.argmax(found))),
            found=f"{axis} {max(found)}",
            expected="data.image_sizes: " + ", ".join(f"{height}x{width}" for height, width in collation.image_sizes),
            hint="Add a size that fits, or resize in the transforms.",
        )
    row = next(row for row, extent in enumerate(found) if extent != found[0])
    if axis in (HEIGHT, WIDTH):
        return TrainerError(
            f"the field {name!r} has different sizes within one batch",
            where=where(row),
            found=form(items[row][name]),
            expected=f"{form(items[0][name])}, as in the first item of the batch",
            hint="Resize or crop to one size in the transforms, or set data.image_sizes to pad.",
        )
    return _differ(items[row], items[0], where(row))

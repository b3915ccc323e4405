"""Geometric operations on an item's images, masks, boxes and keypoints.

Coordinates are continuous: pixel i covers i to i + 1, an image of width W covers 0 to W. Images are resampled
bilinearly, in `resize` with an antialiasing filter; masks use the nearest pixel. A `target` of another size than the
image is transformed in its own resolution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import FIELDS, HEIGHT, IGNORED, TARGET, WIDTH, Field, Item
from trainer.datasets.transforms import objects
from trainer.datasets.transforms.pictures import Operation, resampled

if TYPE_CHECKING:
    from PIL.Image import Image

Size = tuple[int, int]
"""Height and width in pixels."""

_PIXELS = tuple(field for field in FIELDS.values() if HEIGHT in field.axes and WIDTH in field.axes)


def image_size(item: Item) -> Size:
    """Height and width of the image, or of the first other field with pixels.

    Raises:
        TrainerError: the item has no image or mask.
    """
    for field in _PIXELS:
        if field.name in item:
            return _size(field, item[field.name])
    raise TrainerError(
        "the transform needs an image",
        found=f"an item of {', '.join(item) or 'nothing'}",
        expected=f"one of the fields {', '.join(field.name for field in _PIXELS)}",
    )


def crop(item: Item, top: int, left: int, size: Size, *, min_visible: float) -> Item:
    """Crops the window at (top, left) of `size`, which must lie within the image."""
    height, width = size
    changed = dict(item)
    for field, pixels, (down, across) in _pixel_fields(item):
        rows = slice(round(top * down), round((top + height) * down))
        columns = slice(round(left * across), round((left + width) * across))
        changed[field.name] = pixels[_at(field, rows, columns)]
    return objects.moved(changed, translation(-left, -top), size, min_visible=min_visible)


def resize(item: Item, size: Size) -> Item:
    """Resizes everything to `size`, height and width independently."""
    before = image_size(item)
    if size == before:
        return item
    down, across = size[0] / before[0], size[1] / before[1]
    changed = _resampled(item, lambda field, _, ratio: _resizing(field, scaled_size(size, ratio)))
    return objects.moved(changed, np.diag([across, down, 1.0]), size, min_visible=None)


def pad(item: Item, top: int, left: int, size: Size, *, fill: int) -> Item:
    """Places the image at (top, left) of a larger one of `size`; new pixels of a `mask` get the ignored class."""
    if size == image_size(item):
        return item
    changed = dict(item)
    for field, pixels, ratio in _pixel_fields(item):
        value = fill_of(field, pixels, fill)
        shape = list(pixels.shape)
        row_axis, column_axis = field.axes.index(HEIGHT), field.axes.index(WIDTH)
        shape[row_axis], shape[column_axis] = scaled_size(size, ratio)
        larger = np.full(shape, value, pixels.dtype)
        y, x = scaled_size((top, left), ratio)
        rows, columns = slice(y, y + pixels.shape[row_axis]), slice(x, x + pixels.shape[column_axis])
        larger[_at(field, rows, columns)] = pixels
        changed[field.name] = larger
    return objects.moved(changed, translation(left, top), size, min_visible=None)


def flip(item: Item, *, horizontal: bool, keypoint_pairs: Sequence[tuple[int, int]] = ()) -> Item:
    """Flips left to right or top to bottom; paired keypoints (left and right eye) are exchanged."""
    size = image_size(item)
    changed = dict(item)
    for field, pixels, _ in _pixel_fields(item):
        axis = field.axes.index(WIDTH if horizontal else HEIGHT)
        changed[field.name] = _reversed(pixels, axis)
    mirror = np.array([[-1.0, 0, size[1]], [0, 1, 0], [0, 0, 1]] if horizontal else
                      [[1.0, 0, 0], [0, -1, size[0]], [0, 0, 1]])  # fmt: skip
    changed = objects.moved(changed, mirror, size, min_visible=None)
    if "keypoints" in changed and keypoint_pairs:
        order = np.arange(changed["keypoints"].shape[1])
        for first, second in keypoint_pairs:
            order[first], order[second] = second, first
        changed["keypoints"] = changed["keypoints"][:, order]
    return changed


def quarter_turn(item: Item, turns: int) -> Item:
    """Rotates counterclockwise by `turns` times 90 degrees, without resampling."""
    turns %= 4
    if not turns:
        return item
    height, width = image_size(item)
    changed = dict(item)
    for field, pixels, _ in _pixel_fields(item):
        axes = field.axes.index(HEIGHT), field.axes.index(WIDTH)
        changed[field.name] = np.ascontiguousarray(np.rot90(pixels, turns, axes))
    once = np.array([[0.0, 1, 0], [-1, 0, width], [0, 0, 1]])
    half = np.array([[-1.0, 0, width], [0, -1, height], [0, 0, 1]])
    back = np.array([[0.0, -1, height], [1, 0, 0], [0, 0, 1]])
    size = (height, width) if turns == 2 else (width, height)
    return objects.moved(changed, (once, half, back)[turns - 1], size, min_visible=None)


def warp(item: Item, matrix: np.ndarray, size: Size, *, fill: int, min_visible: float) -> Item:
    """Applies a projective map [3, 3] of points (x, y, 1); the result has `size`.

    The bounding box of a rotated box is too large for its object; if the item has masks, boxes shrink to them.
    """
    changed = _resampled(
        item, lambda field, pixels, ratio: _warping(field, matrix, size, ratio, fill_of(field, pixels, fill))
    )
    changed = objects.moved(changed, matrix, size, min_visible=min_visible)
    keeps_axes = not (matrix[0, 1] or matrix[1, 0] or matrix[2, :2].any())
    return changed if keeps_axes else objects.shrunk(changed)


def translation(x: float, y: float) -> np.ndarray:
    """The map that adds (x, y)."""
    return np.array([[1.0, 0, x], [0, 1, y], [0, 0, 1]])


def scaled_size(size: Size, ratio: tuple[float, float]) -> Size:
    """Height and width (or top and left) times their ratios, rounded to whole pixels."""
    return round(size[0] * ratio[0]), round(size[1] * ratio[1])


def fill_of(field: Field, pixels: np.ndarray, fill: int) -> float:
    """The value of new pixels of a field: `fill` of 0 to 255 in images, the ignored class, or False."""
    if not field.is_image:
        return IGNORED if field.name == "mask" else 0
    return fill if pixels.dtype == np.uint8 else fill / 255


def _pixel_fields(item: Item) -> Iterator[tuple[Field, np.ndarray, tuple[float, float]]]:
    """The fields with pixels, and their numbers of rows and columns relative to the image."""
    size = image_size(item)
    for field in _PIXELS:
        if field.name in item:
            pixels = item[field.name]
            height, width = _size(field, pixels)
            if (height, width) != size and field.name != TARGET:
                raise TrainerError(
                    f"the size of {field.name} doesn't match the image",
                    found=f"{height}x{width}",
                    expected=f"{size[0]}x{size[1]} (height x width)",
                )
            yield field, pixels, (height / size[0], width / size[1])


def _resampled(item: Item, operation: Callable[[Field, np.ndarray, tuple[float, float]], Operation]) -> Item:
    changed = dict(item)
    for field, pixels, ratio in _pixel_fields(item):
        changed[field.name] = resampled(pixels, operation(field, pixels, ratio), is_image=field.is_image)
    return changed


def _resizing(field: Field, size: Size) -> Operation:
    from PIL.Image import Resampling

    method = Resampling.BILINEAR if field.is_image else Resampling.NEAREST
    return lambda picture: picture.resize((size[1], size[0]), method)


def _warping(field: Field, matrix: np.ndarray, size: Size, ratio: tuple[float, float], fill: float) -> Operation:
    """Returns the operation for a map; Pillow expects its inverse, from the result to the source."""
    from PIL.Image import Resampling, Transform

    method = Resampling.BILINEAR if field.is_image else Resampling.NEAREST
    height, width = scaled_size(size, ratio)
    scale = np.diag([ratio[1], ratio[0], 1.0])
    inverse = np.linalg.inv(scale @ matrix @ np.linalg.inv(scale))
    inverse /= inverse[2, 2]
    is_affine = not inverse[2, :2].any()
    kind = Transform.AFFINE if is_affine else Transform.PERSPECTIVE
    coefficients = tuple(inverse.ravel()[: 6 if is_affine else 8].tolist())

    def operation(picture: Image) -> Image:
        color = (fill,) * 3 if picture.mode == "RGB" else fill
        return picture.transform((width, height), kind, coefficients, method, fillcolor=color)

    return operation


def _at(field: Field, rows: slice, columns: slice) -> tuple[slice, ...]:
    places = {HEIGHT: rows, WIDTH: columns}
    return tuple(places.get(str(axis), slice(None)) for axis in field.axes)


def _size(field: Field, pixels: np.ndarray) -> Size:
    return pixels.shape[field.axes.index(HEIGHT)], pixels.shape[field.axes.index(WIDTH)]


def _reversed(pixels: np.ndarray, axis: int) -> np.ndarray:
    """Copies an array reversed along an axis; three color channels one at a time: 45 µs at 224x224 instead of 170."""
    backwards = np.flip(pixels, axis)
    if axis != 1 or pixels.ndim != 3 or pixels.shape[2] != 3:
        return np.ascontiguousarray(backwards)
    result = np.empty_like(pixels)
    for channel in range(3):
        result[..., channel] = backwards[..., channel]
    return result

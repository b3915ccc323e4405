"""Resamples arrays of pixels with Pillow, for all axes and dtypes.

Pillow is several times faster than NumPy, including the conversions (25 µs each for 224x224 in color).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Item

if TYPE_CHECKING:
    from PIL.Image import Image

Operation = Callable[["Image"], "Image"]


def image_of(item: Item) -> np.ndarray:
    """The field `image`; raises `TrainerError` if it is missing."""
    if "image" not in item:
        raise TrainerError(
            "a transform of images needs an image", found=f"an item of {', '.join(item)}", expected="the field image"
        )
    return item["image"]


def to_picture(pixels: np.ndarray) -> Image:
    """A Pillow image of [H, W], [H, W, 1] or [H, W, 3]: uint8, or int32, float32 and bool without color."""
    from PIL import Image

    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    return Image.fromarray(pixels.view(np.uint8) if pixels.dtype == bool else pixels)


def resampled(pixels: np.ndarray, operation: Operation, *, is_image: bool) -> np.ndarray:
    """Applies `operation` to pixels [H, W, C] of an image, to a mask [H, W] or to each of [N, H, W]; keeps the
    dtype.
    """
    if is_image and (pixels.shape[2] == 1 or (pixels.shape[2] == 3 and pixels.dtype == np.uint8)):
        result = np.asarray(operation(to_picture(pixels)))
        return result.reshape(*result.shape[:2], pixels.shape[2])
    if is_image:
        return np.stack([_plane(pixels[..., channel], operation) for channel in range(pixels.shape[2])], axis=2)
    if pixels.ndim == 2:
        return _plane(pixels, operation)
    if len(pixels) == 0:
        return np.zeros((0, *_plane(np.zeros(pixels.shape[1:], bool), operation).shape), pixels.dtype)
    return np.stack([_plane(plane, operation) for plane in pixels])


def _plane(pixels: np.ndarray, operation: Operation) -> np.ndarray:
    result = np.asarray(operation(to_picture(pixels)))
    return result.view(bool) if pixels.dtype == bool else result

"""Color jitter and grayscale. Both are one linear map of each pixel's three color channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trainer.datasets.fields import Item
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.pictures import image_of, to_picture
from trainer.datasets.transforms.transform import Transform

if TYPE_CHECKING:
    from PIL.Image import Image

GRAY = np.array([0.299, 0.587, 0.114])
"""The weight of each color in gray (ITU-R BT.601, as in Pillow)."""

_TO_YIQ = np.array([GRAY, [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])
_FROM_YIQ = np.linalg.inv(_TO_YIQ)


@dataclass
class ColorJitter(Transform):
    """Changes brightness, contrast and saturation of `image`, by factors in [1 - x, 1 + x] (not below 0), and hue.

    The four are multiplied into one map of colors: 115 µs for 224x224, instead of 1 ms for four maps. Contrast
    is relative to the mean gray, as in torchvision; hue rotates colors in the plane of I and Q (YIQ space), by a
    fraction of the circle between -`hue` and `hue`. Grayscale images change only in brightness and contrast.
    """

    minds_scale: ClassVar[bool] = False

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        image = image_of(item)
        pixels = to_picture(image) if image.dtype == np.uint8 else image
        brightness, contrast, saturation = (
            draws.uniform(max(0.0, 1 - by), 1 + by) for by in (self.brightness, self.contrast, self.saturation)
        )
        turn = draws.uniform(-self.hue, self.hue)
        matrix = color_map(brightness, contrast, saturation, turn, mean_gray(pixels) if self.contrast else 0.0)
        if image.shape[2] == 1:
            matrix = np.array([[matrix[:, :3].sum() / 3, matrix[:, 3].mean()]])
        return {**item, "image": recolored(pixels, matrix)}


@dataclass
class Grayscale(Transform):
    """Converts `image` to grayscale, with as many channels as before, or with one."""

    minds_scale: ClassVar[bool] = False

    channels: int | None = None

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        image = image_of(item)
        channels = self.channels or image.shape[2]
        if image.dtype == np.uint8:
            gray = to_picture(image).convert("L")
            pixels = np.asarray(gray if channels == 1 else gray.convert("RGB"))
            return {**item, "image": pixels.reshape(*image.shape[:2], channels)}
        shades = (image @ GRAY.astype(image.dtype))[..., None] if image.shape[2] == 3 else image
        return {**item, "image": np.repeat(shades, channels, axis=2)}


def color_map(brightness: float, contrast: float, saturation: float, turn: float, mean: float) -> np.ndarray:
    """float64 [3, 4]: the map of a pixel's colors for the four changes in this order; the last column is added.

    Args:
        mean: the mean gray of the image before the changes.
    """
    angle = 2 * math.pi * turn
    turned = np.array([[1, 0, 0], [0, math.cos(angle), -math.sin(angle)], [0, math.sin(angle), math.cos(angle)]])
    hue = _FROM_YIQ @ turned @ _TO_YIQ if turn else np.eye(3)
    colors = hue @ (saturation * np.eye(3) + (1 - saturation) * np.tile(GRAY, (3, 1)))
    added = colors @ np.full(3, (1 - contrast) * brightness * mean)
    return np.column_stack([contrast * brightness * colors, added])


def mean_gray(pixels: Image | np.ndarray) -> float:
    """The mean gray: 0 to 255 for a Pillow image, in the array's own unit for [H, W, C] of floats."""
    if isinstance(pixels, np.ndarray):
        means = pixels.mean((0, 1), dtype=np.float64)
        return float(means @ GRAY if len(means) == 3 else means[0])
    counts = np.array(pixels.convert("L").histogram())
    return float(counts @ np.arange(256) / counts.sum())


def recolored(pixels: Image | np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """[H, W, C]: the colors under a linear map [C, C + 1], clipped to 0 to 255 (floats: 0 to 1)."""
    channels = len(matrix)
    if isinstance(pixels, np.ndarray):
        return np.clip(pixels @ matrix[:, :channels].T + matrix[:, channels], 0, 1).astype(pixels.dtype)
    if channels == 1:
        table = np.clip(np.rint(matrix[0, 0] * np.arange(256) + matrix[0, 1]), 0, 255)
        return np.asarray(pixels.point(table.astype(int).tolist()))[..., None]
    return np.asarray(pixels.convert("RGB", tuple(matrix.ravel().tolist())))

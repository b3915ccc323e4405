"""Crops: random, centered, of random size and aspect ratio, or selected by their overlap with boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from trainer.datasets.fields import Item
from trainer.datasets.transforms import geometry
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.geometry import Size
from trainer.datasets.transforms.objects import areas, clip, keep
from trainer.datasets.transforms.transform import Transform

Range = tuple[float, float]

_TRIES = 10


@dataclass
class Crop(Transform):
    """Base of crops; objects with a smaller visible fraction of their box than `min_visible` are dropped."""

    min_visible: float = field(default=0.1, kw_only=True)


@dataclass
class RandomCrop(Crop):
    """Crops `size` (height, width) at a random position; smaller images are padded with `fill` first."""

    size: Size
    fill: int = 0

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        item = padded_to(item, self.size, self.fill)
        height, width = geometry.image_size(item)
        top, left = draws.integer(height - self.size[0] + 1), draws.integer(width - self.size[1] + 1)
        return geometry.crop(item, top, left, self.size, min_visible=self.min_visible)


@dataclass
class CenterCrop(Crop):
    """Crops `size` (height, width) at the center; smaller images are padded with `fill` first."""

    size: Size
    fill: int = 0

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        item = padded_to(item, self.size, self.fill)
        height, width = geometry.image_size(item)
        top, left = (height - self.size[0]) // 2, (width - self.size[1]) // 2
        return geometry.crop(item, top, left, self.size, min_visible=self.min_visible)


@dataclass
class RandomResizedCrop(Crop):
    """Crops a random area and aspect ratio, resized to `size` (Szegedy et al. 2015).

    Args:
        size: height and width of the result.
        scale: minimum and maximum area of the crop, as a fraction of the image area.
        ratio: minimum and maximum aspect ratio (width divided by height); its logarithm is uniform.
    """

    minds_scale: ClassVar[bool] = False

    size: Size
    scale: Range = (0.08, 1.0)
    ratio: Range = (3 / 4, 4 / 3)

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        top, left, size = self.window(geometry.image_size(item), draws)
        return geometry.resize(geometry.crop(item, top, left, size, min_visible=self.min_visible), self.size)

    def window(self, size: Size, draws: ItemDraws) -> tuple[int, int, Size]:
        """Top, left and size; after ten failed draws, the largest centered crop of an allowed aspect ratio."""
        height, width = size
        for _ in range(_TRIES):
            area, ratio = height * width * draws.uniform(*self.scale), draws.log_uniform(*self.ratio)
            wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < wide <= width and 0 < high <= height:
                return draws.integer(height - high + 1), draws.integer(width - wide + 1), (high, wide)
        ratio = min(max(width / height, self.ratio[0]), self.ratio[1])
        high, wide = max(1, min(height, round(width / ratio))), max(1, min(width, round(height * ratio)))
        return (height - high) // 2, (width - wide) // 2, (high, wide)

    @property
    def decode_hint(self) -> Size | None:
        return self.size


@dataclass
class RandomScaledCrop(Crop):
    """Scales the image by a random factor, then crops `size` at a random position.

    Unlike in `RandomResizedCrop`, the factor does not depend on the image's size, so object sizes stay comparable
    between images of different sizes. Only the crop is resampled. Smaller images are padded with `fill`.

    Args:
        size: height and width of the result.
        scale: minimum and maximum scale factor; its logarithm is uniform.
    """

    size: Size
    scale: Range = (0.5, 2.0)
    fill: int = 0

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        factor = draws.log_uniform(*self.scale)
        height, width = (max(1, round(extent / factor)) for extent in self.size)
        window = RandomCrop((height, width), self.fill, min_visible=self.min_visible)(item, draws)
        return geometry.resize(window, self.size)


@dataclass
class RandomIoUCrop(Crop):
    """Crops so that some box has at least a randomly drawn IoU with the crop (Liu et al. 2016, SSD sampling).

    Boxes whose center lies outside are dropped. The image is unchanged if no crop is found in `tries` attempts, if 1 or
    more is drawn from `overlaps`, or without boxes.
    """

    scale: Range = (0.3, 1.0)
    ratio: Range = (0.5, 2.0)
    overlaps: Sequence[float] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    tries: int = 40

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        height, width = geometry.image_size(item)
        boxes = item.get("boxes")
        least = self.overlaps[draws.integer(len(self.overlaps))]
        if boxes is None or len(boxes) == 0 or least >= 1:
            return item
        for _ in range(self.tries):
            high, wide = (max(1, int(extent * draws.uniform(*self.scale))) for extent in (height, width))
            top, left = draws.integer(height - high + 1), draws.integer(width - wide + 1)
            if not self.ratio[0] <= wide / high <= self.ratio[1]:
                continue
            window = np.array([left, top, left + wide, top + high], np.float32)
            middles = (boxes[:, :2] + boxes[:, 2:]) / 2
            inside = np.all((middles > window[:2]) & (middles < window[2:]), axis=1)
            if inside.any() and overlap(boxes[inside], window).max() >= least:
                return geometry.crop(keep(item, inside), top, left, (high, wide), min_visible=self.min_visible)
        return item


def padded_to(item: Item, size: Size, fill: int) -> Item:
    """The item padded to at least `size`, with the image at the center."""
    height, width = geometry.image_size(item)
    larger = max(height, size[0]), max(width, size[1])
    return geometry.pad(item, (larger[0] - height) // 2, (larger[1] - width) // 2, larger, fill=fill)


def overlap(boxes: np.ndarray, window: np.ndarray) -> np.ndarray:
    """float64 [N]: intersection over union of each box with the window."""
    left, top, right, bottom = window
    shifted = boxes - np.array([left, top, left, top])
    shared = areas(clip(shifted, (bottom - top, right - left)))
    return shared / (areas(boxes) + areas(window[None]) - shared)

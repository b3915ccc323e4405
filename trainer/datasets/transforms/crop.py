"""Windows of the picture: at random, in the middle, of random size and proportions, by what they show of boxes."""

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
    """A transform that takes a window; objects of which less than `min_visible` of the box is in it are dropped."""

    min_visible: float = field(default=0.1, kw_only=True)


@dataclass
class RandomCrop(Crop):
    """A window of `size` (height, width) anywhere; a picture that is smaller gets a border of colour `fill` first."""

    size: Size
    fill: int = 0

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        item = padded_to(item, self.size, self.fill)
        height, width = geometry.image_size(item)
        top, left = draws.integer(height - self.size[0] + 1), draws.integer(width - self.size[1] + 1)
        return geometry.crop(item, top, left, self.size, min_visible=self.min_visible)


@dataclass
class CenterCrop(Crop):
    """The window of `size` (height, width) in the middle; a smaller picture gets a border of colour `fill` first."""

    size: Size
    fill: int = 0

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        item = padded_to(item, self.size, self.fill)
        height, width = geometry.image_size(item)
        top, left = (height - self.size[0]) // 2, (width - self.size[1]) // 2
        return geometry.crop(item, top, left, self.size, min_visible=self.min_visible)


@dataclass
class RandomResizedCrop(Crop):
    """A window of random area and proportions, resized to `size` (Szegedy et al. 2015).

    Args:
        size: height and width of the result.
        scale: least and largest share of the picture's area.
        ratio: least and largest width over height; its logarithm is uniform.
    """

    minds_scale: ClassVar[bool] = False

    size: Size
    scale: Range = (0.08, 1.0)
    ratio: Range = (3 / 4, 4 / 3)

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        top, left, size = self.window(geometry.image_size(item), draws)
        return geometry.resize(geometry.crop(item, top, left, size, min_visible=self.min_visible), self.size)

    def window(self, size: Size, draws: ItemDraws) -> tuple[int, int, Size]:
        """Top, left and size; the largest of a permitted shape in the middle where ten drawn ones don't fit."""
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
    """The picture enlarged or reduced by a random factor, and of that a window of `size` anywhere.

    Unlike in `RandomResizedCrop` the factor does not depend on the picture's size, so objects of one size stay so where
    pictures differ in theirs. Only the window is resampled. A smaller picture gets a border of colour `fill`.

    Args:
        size: height and width of the result.
        scale: least and largest factor; its logarithm is uniform.
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
    """A window that overlaps some box by at least a drawn IoU (Liu et al. 2016, the sampling of SSD).

    Boxes whose middle lies outside are dropped. Where no window is found in `tries`, or "the whole picture" is drawn
    among the `overlaps` (1 and above), the picture stays as it is; so it does without boxes.
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
    """In the middle of a picture of at least `size`."""
    height, width = geometry.image_size(item)
    larger = max(height, size[0]), max(width, size[1])
    return geometry.pad(item, (larger[0] - height) // 2, (larger[1] - width) // 2, larger, fill=fill)


def overlap(boxes: np.ndarray, window: np.ndarray) -> np.ndarray:
    """float64 [N]: intersection over union of each box with the window."""
    left, top, right, bottom = window
    shifted = boxes - np.array([left, top, left, top])
    shared = areas(clip(shifted, (bottom - top, right - left)))
    return shared / (areas(boxes) + areas(window[None]) - shared)

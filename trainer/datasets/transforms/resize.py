"""Resizing: exact, letterboxed, by the shorter side, to a multiple."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trainer.datasets.fields import Item
from trainer.datasets.transforms import geometry
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.geometry import Size
from trainer.datasets.transforms.transform import Transform


@dataclass
class Resize(Transform):
    """Resizes to `size` (height, width) and ignores the aspect ratio."""

    minds_scale: ClassVar[bool] = False

    size: Size

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        return geometry.resize(item, self.size)

    @property
    def decode_hint(self) -> Size | None:
        return self.size


@dataclass
class Letterbox(Transform):
    """Resizes to fit into `size` (height, width) with the same aspect ratio, centered and padded with `fill`."""

    minds_scale: ClassVar[bool] = False

    size: Size
    fill: int = 114

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        return letterbox(item, self.size, self.fill)

    @property
    def decode_hint(self) -> Size | None:
        return self.size


@dataclass
class ResizeShorterSide(Transform):
    """Resizes the shorter side to `size` with the same aspect ratio, or less if the longer side would exceed
    `longest`.
    """

    minds_scale: ClassVar[bool] = False

    size: int
    longest: int | None = None

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        height, width = geometry.image_size(item)
        scale = self.size / min(height, width)
        if self.longest is not None:
            scale = min(scale, self.longest / max(height, width))
        return geometry.resize(item, (_pixels(height * scale), _pixels(width * scale)))

    @property
    def decode_hint(self) -> Size | None:
        return self.size, self.size


@dataclass
class ResizeToMultiple(Transform):
    """Resizes each side to the nearest multiple of `multiple`, for networks that halve the image several times."""

    multiple: int

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        height, width = geometry.image_size(item)
        return geometry.resize(item, (self._nearest(height), self._nearest(width)))

    def _nearest(self, extent: int) -> int:
        return max(1, round(extent / self.multiple)) * self.multiple


def letterbox(item: Item, size: Size, fill: int) -> Item:
    """Resizes an item to fit into `size`, centered and padded with `fill`."""
    inner, place = inner_frame(geometry.image_size(item), size)
    return geometry.pad(geometry.resize(item, inner), *place, size, fill=fill)


def inner_frame(before: Size, size: Size) -> tuple[Size, tuple[int, int]]:
    """The size of a letterboxed image inside its frame, and its position (top, left)."""
    scale = min(size[0] / before[0], size[1] / before[1])
    inner = min(_pixels(before[0] * scale), size[0]), min(_pixels(before[1] * scale), size[1])
    return inner, ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2)


def _pixels(extent: float) -> int:
    return max(1, round(extent))

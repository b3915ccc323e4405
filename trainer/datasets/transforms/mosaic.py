"""Four items around a common point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from trainer.datasets.fields import Item
from trainer.datasets.transforms import geometry, objects
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.geometry import Size
from trainer.datasets.transforms.mixing import mixed_labels
from trainer.datasets.transforms.transform import Mixing, OtherItem


@dataclass
class Mosaic(Mixing):
    """Combines the item and three others, each in a quarter of an image of `size` (Bochkovskiy et al. 2020).

    The point where they meet lies in the central part of the image. Each item fills its quarter with the same aspect
    ratio and is cropped at a random position. `labels_hot` are mixed by area.

    Args:
        size: height and width of the result.
        middle: range of the point, as fractions of width and height.
    """

    minds_scale: ClassVar[bool] = False

    size: Size
    middle: tuple[float, float] = (0.25, 0.75)
    min_visible: float = field(default=0.1, kw_only=True)

    def mix(self, item: Item, draws: ItemDraws, other: OtherItem) -> Item:
        height, width = self.size
        y, x = (min(max(round(draws.uniform(*self.middle) * extent), 1), extent - 1) for extent in self.size)
        places = [(0, 0, (y, x)), (0, x, (y, width - x)), (y, 0, (height - y, x)), (y, x, (height - y, width - x))]
        parts = [self._part(one, draws, size) for one, (_, _, size) in zip(_four(item, other), places, strict=True)]
        shares = [size[0] * size[1] / (height * width) for _, _, size in places]
        objects.check_alike(parts)
        moved = [self._placed(part, top, left) for part, (top, left, _) in zip(parts, places, strict=True)]
        labels = mixed_labels("mosaic", list(zip(shares, parts, strict=True)))
        mixed = {**item, **objects.joined(moved), **labels}
        for name in ("image", "target", "mask"):
            if name in item:
                upper, lower = (np.concatenate([parts[row][name], parts[row + 1][name]], axis=1) for row in (0, 2))
                mixed[name] = np.concatenate([upper, lower], axis=0)
        return mixed

    def _part(self, item: Item, draws: ItemDraws, size: Size) -> Item:
        """The largest random crop with the aspect ratio of `size`, resized to it."""
        height, width = geometry.image_size(item)
        scale = max(size[0] / height, size[1] / width)
        window = max(1, round(size[0] / scale)), max(1, round(size[1] / scale))
        top, left = draws.integer(height - window[0] + 1), draws.integer(width - window[1] + 1)
        return geometry.resize(geometry.crop(item, top, left, window, min_visible=self.min_visible), size)

    def _placed(self, part: Item, top: int, left: int) -> Item:
        """The objects of a part, without its pixels, at their position in the whole."""
        rows = {name: part[name] for name in objects.ROWS if name in part}
        if "masks" in rows:
            return geometry.pad(rows, top, left, self.size, fill=0)
        return objects.moved(rows, geometry.translation(left, top), self.size, min_visible=None)

    @property
    def decode_hint(self) -> Size | None:
        return self.size


def _four(item: Item, other: OtherItem) -> list[Item]:
    return [item, other(), other(), other()]

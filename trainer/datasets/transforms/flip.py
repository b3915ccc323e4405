"""Flips and quarter turns: no pixel is resampled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from trainer.datasets.fields import Item
from trainer.datasets.transforms import geometry
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.transform import Transform


@dataclass
class HorizontalFlip(Transform):
    """Flips left to right.

    Args:
        keypoint_pairs: pairs of keypoint indices that are exchanged, such as (1, 2) for left and right eye.
    """

    minds_scale: ClassVar[bool] = False

    keypoint_pairs: tuple[tuple[int, int], ...] = ()
    probability: float = field(default=0.5, kw_only=True)

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        return geometry.flip(item, horizontal=True, keypoint_pairs=self.keypoint_pairs)


@dataclass
class VerticalFlip(Transform):
    """Flips top to bottom; `keypoint_pairs` as for `HorizontalFlip`."""

    minds_scale: ClassVar[bool] = False

    keypoint_pairs: tuple[tuple[int, int], ...] = ()
    probability: float = field(default=0.5, kw_only=True)

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        return geometry.flip(item, horizontal=False, keypoint_pairs=self.keypoint_pairs)


@dataclass
class QuarterTurn(Transform):
    """Rotates by 0, 90, 180 or 270 degrees with equal probability, for images without a natural orientation, such as
    satellite images or cells.

    Together with flips, all eight orientations occur. Height and width are exchanged by 90 and 270 degrees.
    """

    minds_scale: ClassVar[bool] = False

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        return geometry.quarter_turn(item, draws.integer(4))

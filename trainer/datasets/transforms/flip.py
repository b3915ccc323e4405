"""Mirror images and quarter turns: no pixel is resampled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from trainer.datasets.fields import Item
from trainer.datasets.transforms import geometry
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.transform import Transform


@dataclass
class HorizontalFlip(Transform):
    """Left becomes right.

    Args:
        keypoint_pairs: numbers of keypoints that change names, such as (1, 2) for the left and the right eye.
    """

    minds_scale: ClassVar[bool] = False

    keypoint_pairs: tuple[tuple[int, int], ...] = ()
    probability: float = field(default=0.5, kw_only=True)

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        return geometry.flip(item, horizontal=True, keypoint_pairs=self.keypoint_pairs)


@dataclass
class VerticalFlip(Transform):
    """The top becomes the bottom; `keypoint_pairs` as for `HorizontalFlip`."""

    minds_scale: ClassVar[bool] = False

    keypoint_pairs: tuple[tuple[int, int], ...] = ()
    probability: float = field(default=0.5, kw_only=True)

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        return geometry.flip(item, horizontal=False, keypoint_pairs=self.keypoint_pairs)


@dataclass
class QuarterTurn(Transform):
    """Turned by 0, 90, 180 or 270 degrees, each as likely: for pictures that have no top, as of satellites or cells.

    With flips beside it all eight ways to lay a picture down come up. Height and width change places where they differ.
    """

    minds_scale: ClassVar[bool] = False

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        return geometry.quarter_turn(item, draws.integer(4))

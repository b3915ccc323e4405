"""What a transform is: one of a single item, a warp that others join, and one that needs other items too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from trainer.datasets.fields import Item
from trainer.datasets.transforms import geometry
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.geometry import Size

OtherItem = Callable[[], Item]
"""Draws another item of the data set and makes it by the part of the pipeline that comes before."""


@dataclass
class Transform(ABC):
    """`transform(item, draws)` is the item transformed: a new dictionary, the arrays it was given left as they are.

    All that is random comes from `draws`. One of your own derives from this class, is named in a configuration as
    ./file.py:Class, and gets its `options` as keyword arguments.
    """

    minds_scale: ClassVar[bool] = True
    """Whether the result would be another if the image came in fewer pixels; a flip, say, does not mind."""

    probability: float = field(default=1.0, kw_only=True)
    """How likely it is to be applied to an item."""

    @abstractmethod
    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        """The transformed item."""

    @property
    def decode_hint(self) -> Size | None:
        """What height and width the image must at least have for the result to have all its pixels, where known."""
        return None


@dataclass
class Warp(Transform):
    """A transform that is a projective map of the plane: neighbours in a pipeline are sampled once, as one map."""

    fill: int = field(default=0, kw_only=True)
    """What comes in from outside the picture, 0 to 255."""
    min_visible: float = field(default=0.1, kw_only=True)
    """Objects of which less than this share of the box is left are dropped."""

    @abstractmethod
    def matrix(self, size: Size, draws: ItemDraws) -> np.ndarray:
        """float64 [3, 3]: where the point (x, y, 1) of an image of this size goes."""

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        size = geometry.image_size(item)
        return geometry.warp(item, self.matrix(size, draws), size, fill=self.fill, min_visible=self.min_visible)


@dataclass
class Mixing(Transform):
    """A transform that makes one item out of several: the one it is given and others that it asks for."""

    @abstractmethod
    def mix(self, item: Item, draws: ItemDraws, other: OtherItem) -> Item:
        """The mixed item; each call of `other` gives a further one, drawn with replacement."""

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        raise TypeError(f"{type(self).__name__} needs other items: use it in a Pipeline")

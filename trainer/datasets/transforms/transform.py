"""The base classes of transforms: of a single item, a warp that can be merged with others, and one that mixes items."""

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
"""Draws another item of the data set and applies the earlier part of the pipeline to it."""


@dataclass
class Transform(ABC):
    """`transform(item, draws)` returns the transformed item: a new dictionary; given arrays are not modified.

    All random numbers come from `draws`. A custom transform derives from this class, is named in a configuration as
    ./file.py:Class, and receives its `options` as keyword arguments.
    """

    minds_scale: ClassVar[bool] = True
    """Whether the result depends on the number of pixels of the image; false for a flip."""

    probability: float = field(default=1.0, kw_only=True)
    """Probability that the transform is applied to an item."""

    @abstractmethod
    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        """The transformed item."""

    @property
    def decode_hint(self) -> Size | None:
        """Minimum height and width of the image for a result with full resolution, if known."""
        return None


@dataclass
class Warp(Transform):
    """A transform that is a projective map of the plane: consecutive ones are merged into one resampling."""

    fill: int = field(default=0, kw_only=True)
    """Gray value of areas outside the image, 0 to 255."""
    min_visible: float = field(default=0.1, kw_only=True)
    """Minimum visible fraction of an object's box; objects with less are dropped."""

    @abstractmethod
    def matrix(self, size: Size, draws: ItemDraws) -> np.ndarray:
        """float64 [3, 3]: the map of points (x, y, 1) of an image of this size."""

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        size = geometry.image_size(item)
        return geometry.warp(item, self.matrix(size, draws), size, fill=self.fill, min_visible=self.min_visible)


@dataclass
class Mixing(Transform):
    """A transform that combines several items: the given one and others that it requests."""

    @abstractmethod
    def mix(self, item: Item, draws: ItemDraws, other: OtherItem) -> Item:
        """The mixed item; each call of `other` returns a further item, drawn with replacement."""

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        raise TypeError(f"{type(self).__name__} needs other items: use it in a Pipeline")

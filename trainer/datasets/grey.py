"""Grey pictures made to look alike: bright things on a dark ground, over the whole range of greys."""

from __future__ import annotations

import numpy as np

from trainer.datasets.dataset import Dataset, Wrapped
from trainer.datasets.fields import Item

DARK, BRIGHT = 1.0, 99.8
"""Per cent of the pixels that become black at most, and that stay below white."""


class StretchedGrey(Wrapped):
    """The items of `dataset` with `image` as `stretched` makes it."""

    def __init__(self, dataset: Dataset, dark: float = DARK, bright: float = BRIGHT) -> None:
        super().__init__(dataset)
        self.dark, self.bright = dark, bright

    def __getitem__(self, index: int) -> Item:
        item = self.dataset[index]
        return {**item, "image": stretched(item["image"], self.dark, self.bright)}


def stretched(image: np.ndarray, dark: float = DARK, bright: float = BRIGHT) -> np.ndarray:
    """uint8 [H, W, 1] stretched from black to white, a bright picture inverted."""
    grey = 255 - image if is_bright(image) else image
    low, high = np.percentile(grey, (dark, bright))
    table = np.clip((np.arange(256) - low) * (255 / max(high - low, 1)), 0, 255)
    return np.rint(table).astype(np.uint8)[grey]


def is_bright(image: np.ndarray) -> bool:
    """Whether half of the picture's pixels are lighter than middle grey."""
    return bool(np.median(image) > 127)

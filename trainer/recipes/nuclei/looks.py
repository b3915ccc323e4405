"""Fluorescence and stained tissue made to look alike: bright nuclei on a dark ground, over the whole range of greys."""

from __future__ import annotations

import numpy as np

from trainer.datasets import Item, Wrapped

DARK, BRIGHT = 1.0, 99.8
"""Per cent of the pixels that become black at most, and that stay below white."""


class Alike(Wrapped):
    """The items of `dataset` with `image` (uint8, grey) stretched from black to white, bright pictures inverted."""

    def __getitem__(self, index: int) -> Item:
        item = self.dataset[index]
        return {**item, "image": stretched(item["image"])}


def stretched(image: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 1] likewise; a picture is bright where half of its pixels are lighter than middle grey."""
    grey = 255 - image if np.median(image) > 127 else image
    low, high = np.percentile(grey, (DARK, BRIGHT))
    table = np.clip((np.arange(256) - low) * (255 / max(high - low, 1)), 0, 255)
    return np.rint(table).astype(np.uint8)[grey]

"""Normalizes the appearance of grayscale images: bright objects on a dark background, full range of gray values."""

from __future__ import annotations

import numpy as np

from trainer.datasets.dataset import Dataset, Wrapped
from trainer.datasets.fields import Item

DARK, BRIGHT = 1.0, 99.8
"""Percentiles of the gray values that are mapped to black and to white."""


class StretchedGray(Wrapped):
    """Applies `stretched` to the `image` of every item of `dataset`."""

    def __init__(self, dataset: Dataset, dark: float = DARK, bright: float = BRIGHT) -> None:
        super().__init__(dataset)
        self.dark, self.bright = dark, bright

    def __getitem__(self, index: int) -> Item:
        item = self.dataset[index]
        return {**item, "image": stretched(item["image"], self.dark, self.bright)}


def stretched(image: np.ndarray, dark: float = DARK, bright: float = BRIGHT) -> np.ndarray:
    """Stretches uint8 [H, W, 1] to the range from black to white; inverts bright images."""
    gray = 255 - image if is_bright(image) else image
    low, high = np.percentile(gray, (dark, bright))
    table = np.clip((np.arange(256) - low) * (255 / max(high - low, 1)), 0, 255)
    return np.rint(table).astype(np.uint8)[gray]


def is_bright(image: np.ndarray) -> bool:
    """Whether the median pixel of the image is lighter than middle gray."""
    return bool(np.median(image) > 127)

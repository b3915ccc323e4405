"""Grey pictures made to look alike: bright things on a dark ground, over the whole range of greys."""

from __future__ import annotations

import numpy as np

DARK, BRIGHT = 1.0, 99.8
"""Per cent of the pixels that become black at most, and that stay below white."""


def stretched(image: np.ndarray, dark: float = DARK, bright: float = BRIGHT) -> np.ndarray:
    """uint8 [H, W, 1] stretched from black to white, a bright picture inverted."""
    grey = 255 - image if is_bright(image) else image
    low, high = np.percentile(grey, (dark, bright))
    table = np.clip((np.arange(256) - low) * (255 / max(high - low, 1)), 0, 255)
    return np.rint(table).astype(np.uint8)[grey]


def is_bright(image: np.ndarray) -> bool:
    """Whether half of the picture's pixels are lighter than middle grey."""
    return bool(np.median(image) > 127)

"""Overlapping tiles of an image: every pixel belongs to one tile, and none lies at a tile's edge except at image edges.

The overlap-tile strategy of the U-Net paper (Ronneberger, Fischer and Brox 2015).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Window:
    """A tile of an image: its start, and the rows and columns (first, end) that it contributes."""

    top: int
    left: int
    rows: tuple[int, int]
    columns: tuple[int, int]


def window_places(frame: tuple[int, int], size: int, margin: int) -> tuple[Window, ...]:
    """The tiles of an image, row by row."""
    height, width = frame
    return tuple(
        Window(top, left, own(top, height, size, margin), own(left, width, size, margin))
        for top in starts(height, size, margin)
        for left in starts(width, size, margin)
    )


def window_of(pixels: np.ndarray, top: int, left: int, size: int) -> np.ndarray:
    """The tile [size, size, C] of [H, W, C]; zeros beyond the image."""
    window = np.zeros((size, size, pixels.shape[2]), pixels.dtype)
    part = pixels[top : top + size, left : left + size]
    window[: part.shape[0], : part.shape[1]] = part
    return window


def starts(extent: int, size: int, margin: int) -> list[int]:
    """The starts of tiles: as few as needed to cover the image, evenly spaced."""
    if extent <= size:
        return [0]
    gaps = -(-(extent - size) // (size - 2 * margin))
    return [round(step * (extent - size) / gaps) for step in range(gaps + 1)]


def own(start: int, extent: int, size: int, margin: int) -> tuple[int, int]:
    """First and end of the pixels that the tile at `start` contributes: up to half of its overlap with each
    neighbor.
    """
    places = starts(extent, size, margin)
    number = places.index(start)
    first = 0 if number == 0 else (places[number - 1] + size + start) // 2
    end = extent if number + 1 == len(places) else (start + size + places[number + 1]) // 2
    return first, end

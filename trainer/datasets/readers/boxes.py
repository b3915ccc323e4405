"""Checks the boxes of readers against their image, and scales them to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainer import TrainerError

SLACK = 1.0
"""Pixels by which a box may exceed the image due to rounding; it is clipped to the image."""


def checked_boxes(boxes: np.ndarray, size: tuple[int, int], where: str, names: Sequence[object]) -> np.ndarray:
    """float64 [N, 4] of x_min, y_min, x_max, y_max within the image of `size` (height, width).

    Raises:
        TrainerError: a coordinate is not finite, a box has no area, or exceeds the image; `names` are the names of the
            boxes in messages.
    """
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    height, width = size
    extent = np.array([width, height, width, height])
    inside = np.clip(boxes, 0, extent)
    with np.errstate(invalid="ignore"):
        faults = {
            "a box's coordinates are not finite": ~np.isfinite(boxes).all(1),
            "a box has no area": (boxes[:, 2] <= boxes[:, 0]) | (boxes[:, 3] <= boxes[:, 1]),
            "a box exceeds the image": (np.abs(boxes - inside) > SLACK).any(1)
            | (inside[:, 2] <= inside[:, 0])
            | (inside[:, 3] <= inside[:, 1]),
        }
    for message, is_wrong in faults.items():
        if is_wrong.any():
            first = int(np.flatnonzero(is_wrong)[0])
            values = ", ".join(f"{value:g}" for value in boxes[first])
            others = f" ({int(is_wrong.sum())} such boxes)" if is_wrong.sum() > 1 else ""
            raise TrainerError(
                message,
                where=where,
                found=f"{names[first]}: x_min, y_min, x_max, y_max = {values}{others}",
                expected=f"a box within {width}x{height} pixels",
            )
    return inside


def scaled(coordinates: np.ndarray, size: tuple[int, int], shape: Sequence[int]) -> np.ndarray:
    """Coordinates (x, y, x, y, …) of an image of `size` (height, width), scaled to one of `shape`, as float32."""
    factors = np.array([shape[1] / size[1], shape[0] / size[0]])
    return (coordinates * np.resize(factors, coordinates.shape[-1])).astype(np.float32)


def nearest(mask: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """A mask [..., H, W] resized to (height, width) with the nearest pixel."""
    height, width = shape[:2]
    if mask.shape[-2:] == (height, width):
        return mask
    rows = ((np.arange(height) + 0.5) * mask.shape[-2] / height).astype(np.int64)
    columns = ((np.arange(width) + 0.5) * mask.shape[-1] / width).astype(np.int64)
    return mask[..., rows[:, None], columns]

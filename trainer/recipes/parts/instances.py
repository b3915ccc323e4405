"""Instance segmentation with center heatmaps and offsets: the targets of each pixel.

Each pixel predicts whether it belongs to an object, a center heatmap, and the offset to its object's center. Peaks of
the heatmap are object centers, and each pixel is assigned to the center that its offset points to (Panoptic-DeepLab,
Cheng et al. 2020). The peaks are as wide as their objects, so that both small and large objects have exactly one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import Tensor, float32, int32
from trainer.learner import Sample
from trainer.learner.inference.grouping import PER_CLASS, run_lengths

SPREAD = 0.5
"""Standard deviation of a heatmap peak, as a fraction of the radius of a disc with the object's area."""


@dataclass(frozen=True)
class Targets:
    """The targets of pixels, each [B, H, W].

    foreground: bool; heatmap: 1 at the center of an object, a Gaussian within it, 0 in the background.
    offset_y, offset_x: pixels to the object's center; radius: of a disc with its area; 0, 0 and 1 in the background.
    """

    foreground: Tensor
    heatmap: Tensor
    offset_y: Tensor
    offset_x: Tensor
    radius: Tensor


def targets(segments: Tensor) -> Targets:
    """The targets of segments [B, H, W], int32. Runs in the traced step, so transforms need not support them."""
    rows, height, width = segments.shape
    foreground = segments >= PER_CLASS
    numbers = engine.reshape(engine.where(foreground, segments % PER_CLASS, -1), (rows, -1))
    inside = engine.reshape(foreground.astype(float32), (rows, -1))
    y = engine.broadcast_to(engine.reshape(engine.arange(height, dtype=float32), (1, height, 1)), segments.shape)
    x = engine.broadcast_to(engine.reshape(engine.arange(width, dtype=float32), (1, 1, width)), segments.shape)

    def of_object(values: Tensor) -> Tensor:
        return engine.bincount(numbers, length=PER_CLASS, weights=engine.reshape(values, (rows, -1)) * inside)

    def of_pixel(table: Tensor) -> Tensor:
        found = engine.take_along_axis(table, engine.maximum(numbers, 0).astype(int32), axis=1)
        return engine.reshape(found * inside, segments.shape)

    pixels = of_object(engine.ones_like(y))
    area = engine.maximum(pixels, 1.0)
    within = foreground.astype(float32)
    offset_y = of_pixel(of_object(y) / area) - y * within
    offset_x = of_pixel(of_object(x) / area) - x * within
    squared = engine.maximum(of_pixel(area) * (1 / np.pi), 1.0)
    distance = (offset_y * offset_y + offset_x * offset_x) / (squared * (2 * SPREAD**2))
    return Targets(foreground, engine.exp(-distance) * within, offset_y, offset_x, engine.sqrt(squared))


def annotations_of(segments: np.ndarray, scores: np.ndarray | None = None) -> dict[str, Any]:
    """Annotations of a `Sample` for objects [H, W]: their masks as run lengths down the columns, and their scores."""
    masks = [run_lengths(segments == number) for number in np.unique(segments[segments > 0])]
    return {"masks": masks, **({} if scores is None else {"scores": scores.round(4).tolist()})}


def samples_of(
    number: int, picture: np.ndarray, objects: np.ndarray, scores: np.ndarray, segments: np.ndarray
) -> Iterator[Sample]:
    """Image `number` [H, W] with its predicted objects [H, W] and their scores, and with the objects of its ground
    truth, `segments` [H, W].
    """
    true = np.where(segments >= PER_CLASS, segments, 0)
    count = len(np.unique(true)) - 1
    yield Sample(f"{number}-predicted", picture, f"{len(scores)} predicted", annotations_of(objects, scores))
    yield Sample(f"{number}-target", picture, f"{count} in the ground truth", annotations_of(true))

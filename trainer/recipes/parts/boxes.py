"""Box encoding at locations of an image: distances from a location to the four sides (Tian et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainer import engine
from trainer.engine import Tensor


@dataclass(frozen=True)
class Locations:
    """The locations of all levels of a feature pyramid in one list, the finest level first, each in row-major order.

    Attributes:
        points: float32 [L, 2], x and y in pixels of the image: the centers of the receptive fields.
        strides: float32 [L], distance in pixels between two locations of the level.
        levels: int [L], the index of the level.
    """

    points: np.ndarray
    strides: np.ndarray
    levels: np.ndarray

    def boxes(self, distances: Tensor) -> Tensor:
        """Boxes [N, L, 4] in pixels of the image, from distances [N, L, 4] to the sides in strides."""
        return boxes_from_distances(engine.asarray(self.points), distances * engine.asarray(self.strides[:, None]))


def locations(sizes: Sequence[tuple[int, int]], strides: Sequence[int]) -> Locations:
    """The locations of levels with these heights and widths."""
    points = [
        stride * (np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).reshape(-1, 2) + 0.5)
        for (height, width), stride in zip(sizes, strides, strict=True)
    ]
    counts = [height * width for height, width in sizes]
    return Locations(
        np.concatenate(points).astype(np.float32),
        np.repeat(np.array(strides, np.float32), counts),
        np.repeat(np.arange(len(counts)), counts),
    )


def distances_to_sides(points: Tensor, boxes: Tensor) -> Tensor:
    """Distances from points [..., 2] to the left, top, right and bottom of boxes [..., 4]; negative outside."""
    return engine.concat([points - boxes[..., :2], boxes[..., 2:] - points], axis=-1)


def boxes_from_distances(points: Tensor, distances: Tensor) -> Tensor:
    """The inverse: boxes [..., 4] from points [..., 2] and their distances to the sides."""
    return engine.concat([points - distances[..., :2], points + distances[..., 2:]], axis=-1)

"""FCOS (Tian et al. 2019): each location of a feature pyramid predicts a class and the distances to the box's sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer import engine
from trainer.engine import Tensor, float32, nn
from trainer.recipes.parts.boxes import Locations, distances_to_sides

PRIOR = 0.01
"""Initial class probability (Lin et al. 2017); without it, negatives dominate the first steps."""


class FcosHead(nn.Module):
    """Two towers of convolutions, shared by all levels: class logits, and distances to the sides in strides.

    Levels [N, channels, H_l, W_l] become logits [N, L, classes] and distances [N, L, 4] of the locations of all levels
    in the order of `boxes.locations`. Distances are exponentials, with a learned scale per level.
    """

    def __init__(self, channels: int, classes: int, *, depth: int, levels: int) -> None:
        self.class_tower, self.box_tower = (tower(channels, depth) for _ in range(2))
        self.class_logits = nn.Conv2d(channels, classes, 3, padding=1)
        self.class_logits.bias = nn.declare((classes,), nn.initializers.constant(-math.log((1 - PRIOR) / PRIOR)))
        self.box_distances = nn.Conv2d(channels, 4, 3, padding=1)
        self.scales = nn.declare((levels,), nn.initializers.ones)

    def forward(self, features: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        logits = [_in_a_row(self.class_logits(self.class_tower(level))) for level in features]
        distances = [
            _in_a_row(self.box_distances(self.box_tower(level))) * self.scales[number]
            for number, level in enumerate(features)
        ]
        return engine.concat(logits, axis=1), engine.exp(engine.concat(distances, axis=1))


def tower(channels: int, depth: int) -> nn.Sequential:
    """3x3 convolutions with group norm and ReLU."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.GroupNorm(channels // 8, channels)]
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)


def _in_a_row(maps: Tensor) -> Tensor:
    """[N, C, H, W] as [N, H · W, C]."""
    images, channels, height, width = maps.shape
    return engine.permute_dims(engine.reshape(maps, (images, channels, height * width)), (0, 2, 1))


@dataclass(frozen=True)
class Targets:
    """The targets of each location.

    Attributes:
        boxes: float32 [N, L, 4], the assigned box; undefined without one.
        classes: integers [N, L], its class, -1 for background.
    """

    boxes: Tensor
    classes: Tensor

    @property
    def is_positive(self) -> Tensor:
        """Whether a box is assigned to each location, bool [N, L]."""
        return self.classes >= 0


def assign(places: Locations, boxes: Tensor, labels: Tensor, ranges: Sequence[float], *, radius: float) -> Targets:
    """Assigns a box to each location: the smallest that contains it, is centered within `radius`, and fits the level.

    Args:
        boxes, labels: float [N, M, 4] in pixels and integers [N, M], padded with labels of -1.
        ranges: maximum distance to a side for each level, in pixels, one fewer than levels.
        radius: maximum distance of a location from the center of its box, in strides of its level.
    """
    points, strides = engine.asarray(places.points[:, None]), engine.asarray(places.strides[:, None])
    bounds = [0.0, *ranges, math.inf]
    least, most = (engine.asarray([bounds[level + end] for level in places.levels.tolist()]) for end in (0, 1))
    candidates = engine.expand_dims(boxes, axis=1)  # [N, 1, M, 4] against locations [L, 1, …]
    sides = distances_to_sides(points, candidates)
    farthest = engine.max(sides, axis=-1)
    centers = (candidates[..., :2] + candidates[..., 2:]) / 2
    is_central = engine.max(engine.abs(points - centers), axis=-1) < radius * strides
    is_assigned = (
        (engine.min(sides, axis=-1) > 0)
        & is_central
        & (farthest >= engine.expand_dims(least.astype(float32), axis=-1))
        & (farthest < engine.expand_dims(most.astype(float32), axis=-1))
        & (engine.expand_dims(labels, axis=1) >= 0)
    )
    areas = engine.where(is_assigned, engine.expand_dims(nn.box_area(boxes), axis=1), math.inf)
    chosen = engine.argmin(areas, axis=-1)  # [N, L]
    of_box = engine.broadcast_to(engine.expand_dims(chosen, axis=-1), (*chosen.shape, 4))
    classes = engine.take_along_axis(labels, chosen, axis=1)
    return Targets(
        engine.take_along_axis(boxes, of_box, axis=1),
        engine.where(engine.any(is_assigned, axis=-1), classes, -1),
    )


@dataclass(frozen=True)
class Detections:
    """The D best detections of each image, sorted by score: boxes float32 [N, D, 4], scores [N, D], classes [N, D] (-1:
    padding).
    """

    boxes: Tensor
    scores: Tensor
    classes: Tensor


def detect(
    logits: Tensor, boxes: Tensor, *, candidates: int, score_threshold: float, iou_threshold: float, most: int
) -> Detections:
    """Non-maximum suppression of the best `candidates` of logits [N, L, C] and boxes [N, L, 4], by class; returns at
    most `most` detections.
    """
    images, places, classes = logits.shape
    candidates = min(candidates, places * classes)
    scores, order = engine.top_k(engine.reshape(nn.functional.sigmoid(logits), (images, places * classes)), candidates)
    found, place = order % classes, order // classes
    chosen = engine.take_along_axis(boxes, _of_box(place), axis=1)
    kept = nn.nms(chosen, scores, iou_threshold, classes=found) & (scores > score_threshold)
    best, order = engine.top_k(engine.where(kept, scores, -1), min(most, candidates))
    found = engine.where(best >= 0, engine.take_along_axis(found, order, axis=1), -1)
    return Detections(engine.take_along_axis(chosen, _of_box(order), axis=1), best, found)


def _of_box(indices: Tensor) -> Tensor:
    """The indices, repeated for the four coordinates of a box."""
    return engine.broadcast_to(engine.expand_dims(indices, axis=-1), (*indices.shape, 4))

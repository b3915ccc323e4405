"""The boundary F-score of segmentations: the accuracy of outlines, independent of areas."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import Tensor, float32, float64
from trainer.metrics.classes import IGNORED_PIXEL
from trainer.metrics.metric import Metric, State
from trainer.metrics.predictions import Predictions


class BoundaryF(Metric):
    """The F-score of boundary pixels (Csurka et al. 2013): the mean over images, then over classes.

    A pixel is on the boundary of its class if one of its four neighbors has another class. Precision is the fraction of
    the predicted boundary within `tolerance` of the target boundary, recall the reverse. An image counts for the
    classes with a predicted or target boundary in it. Ignored pixels have no class.

    Args:
        tolerance: in pixels, Euclidean; None: 0.75 % of the image's diagonal, rounded up.
        ignore_index: ignored label, in addition to -1; None: 255, unless that is a class.
    """

    needs = ("logits|scores", "labels")

    def __init__(self, tolerance: float | None = None, ignore_index: int | None = None) -> None:
        self.tolerance, self.ignore_index = tolerance, ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        scores, labels = given["logits" if "logits" in given else "scores"], given["labels"]
        if labels.ndim != 3 or scores.ndim != 4 or scores.shape[:1] + scores.shape[2:] != labels.shape:
            raise TrainerError(
                "the boundary F-score needs images",
                found=f"labels {list(labels.shape)} for scores {list(scores.shape)}",
                expected="scores [B, C, H, W] and labels [B, H, W]",
            )
        classes = scores.shape[1]
        ignored = IGNORED_PIXEL if self.ignore_index is None and classes <= IGNORED_PIXEL else self.ignore_index
        counts = (labels >= 0) & (labels < classes)
        if ignored is not None:
            counts = counts & (labels != ignored)
        found = engine.argmax(scores, axis=1).astype(labels.dtype)
        height, width = labels.shape[1:]
        radius = self.tolerance if self.tolerance is not None else math.ceil(0.0075 * math.hypot(height, width))
        ours, theirs = (_boundaries(_members(which, counts, classes)) for which in (found, labels))
        near_theirs, near_ours = _widened(theirs, radius), _widened(ours, radius)
        lengths, right_lengths = _total(ours), _total(theirs)
        precision = _total(ours * near_theirs) / engine.maximum(lengths, 1)
        recall = _total(theirs * near_ours) / engine.maximum(right_lengths, 1)
        weight = engine.reshape(given.weight.astype(float64), (-1, 1))
        score = 2 * precision * recall / engine.maximum(precision + recall, 1e-12)
        occurs = ((lengths + right_lengths) > 0).astype(float64) * weight
        return {"scores": engine.sum(score * occurs, axis=0), "images": engine.sum(occurs, axis=0)}

    def values(self, state: State) -> Mapping[str, float]:
        occurs = state["images"] > 0
        return {"": float(np.mean(state["scores"][occurs] / state["images"][occurs])) if occurs.any() else math.nan}

    def state_key(self) -> Hashable:
        return BoundaryF, self.tolerance, self.ignore_index


def _members(labels: Tensor, counts: Tensor, classes: int) -> Tensor:
    """Whether each pixel has each class, float32 [B, C, H, W]."""
    numbers = engine.reshape(engine.arange(classes, dtype=labels.dtype), (1, classes, 1, 1))
    return ((engine.expand_dims(labels, axis=1) == numbers) & engine.expand_dims(counts, axis=1)).astype(float32)


def _boundaries(members: Tensor) -> Tensor:
    """The members with at least one of four neighbors outside the set; pixels beyond the image are not neighbors."""
    padded = engine.pad(members, [(0, 0), (0, 0), (1, 1), (1, 1)], value=1.0)
    height, width = members.shape[2:]
    neighbors = [
        padded[:, :, y : y + height, x : x + width] for y, x in ((0, 1), (2, 1), (1, 0), (1, 2))
    ]  # fmt: skip
    least = neighbors[0]
    for neighbor in neighbors[1:]:
        least = engine.minimum(least, neighbor)
    return members * (1 - least)


def _widened(boundary: Tensor, radius: float) -> Tensor:
    """1 within `radius` of a boundary pixel, by convolution with a disk."""
    extent = math.floor(radius)
    offsets = np.arange(-extent, extent + 1)
    disk = (offsets[:, None] ** 2 + offsets**2 <= radius**2).astype(np.float32)
    batch, classes, height, width = boundary.shape
    images = engine.reshape(boundary, (batch * classes, 1, height, width))
    touched = engine.convolution(images, engine.asarray(disk[None, None]), padding=extent)
    return engine.reshape((touched > 0.5).astype(float32), boundary.shape)


def _total(pixels: Tensor) -> Tensor:
    return engine.sum(pixels, axis=(2, 3)).astype(float64)

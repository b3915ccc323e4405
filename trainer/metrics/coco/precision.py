"""Precision at given recalls, and the maximum recall, of each category: `accumulate` of pycocotools, bit for bit.

Precision rises only at true positives, so the curve consists of true positives only. The n-th of them reaches the
recall n / (number of truths), the same in every curve of a category.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainer.metrics.coco.columns import Booleans, Floats, Integers
from trainer.metrics.coco.groups import Grouped
from trainer.metrics.coco.matching import Matches
from trainer.metrics.coco.settings import Settings

EPSILON = np.spacing(1)


@dataclass(frozen=True, eq=False)
class Curves:
    """The result, with pycocotools' axes; -1 for a category without truths.

    Args:
        precision, scores: float64 [thresholds, recalls, categories, areas, limits]: the maximum precision at that
            recall or above, and the score at which it is reached.
        recall: float64 [thresholds, categories, areas, limits]: the maximum recall.
        truths: int64 [categories, areas]: number of truths that are not ignored.
    """

    precision: Floats
    scores: Floats
    recall: Floats
    truths: Integers


def curves(data: Grouped, matches: Matches, settings: Settings) -> Curves:
    thresholds, recalls = len(settings.iou_thresholds), len(settings.recall_thresholds)
    areas, limits, categories = len(settings.areas), len(settings.limits), data.categories
    precision = np.full((thresholds, recalls, categories, areas, limits), -1.0)
    scores, recall = precision.copy(), np.full((thresholds, categories, areas, limits), -1.0)
    truths = np.stack([np.bincount(data.truth_category[row], minlength=categories) for row in matches.counts], axis=1)
    order = np.lexsort((-data.detections.score, data.category))
    for area in range(areas):
        needed = _needed(truths[:, area], settings.recall_thresholds)
        live = ~np.take(matches.ignored[area], order, axis=1)
        right = np.take(matches.matched[area], order, axis=1) & live
        for limit, most in enumerate(settings.limits):
            rows = np.flatnonzero(data.rank[order] < most)
            is_right, is_live = right, live
            if len(rows) < len(order):
                is_right, is_live = np.take(right, rows, axis=1), np.take(live, rows, axis=1)
            score, category = data.detections.score[order[rows]], data.category[order[rows]]
            found = _Found(is_right, is_live, category, score, categories)
            there = truths[:, area] > 0
            precision[:, :, there, area, limit] = found.precision(needed)[:, :, there]
            scores[:, :, there, area, limit] = found.scores(needed, settings)[:, :, there]
            recall[:, there, area, limit] = found.number[:, there] / truths[there, area]
    return Curves(precision, scores, recall, truths)


def _needed(truths: Integers, recalls: tuple[float, ...]) -> Integers:
    """Number of true positives before the one that reaches each recall, int64 [recalls, categories]."""
    needed = np.zeros((len(recalls), len(truths)), np.int64)
    for category in np.flatnonzero(truths).tolist():
        number = truths[category]
        needed[:, category] = np.searchsorted(np.arange(1, number + 1) / number, recalls)
    return needed


class _Found:
    """The true positives of every category and threshold, by decreasing score.

    `right` and `live` (not ignored) are bool [thresholds, detections]; detections come sorted by category and score.
    """

    def __init__(self, right: Booleans, live: Booleans, category: Integers, score: Floats, categories: int) -> None:
        self.score = score
        self.begins = np.searchsorted(category, np.arange(categories + 1))
        cumulative = np.zeros((len(live), live.shape[1] + 1), np.int32)
        np.cumsum(live, axis=1, out=cumulative[:, 1:])
        curve, self.place = np.nonzero(right)
        segment = curve * categories + category[self.place]
        number = np.bincount(segment, minlength=len(right) * categories)
        self.starts = np.cumsum(number) - number
        self.number = number.reshape(len(right), categories)
        so_far = np.arange(1, len(segment) + 1) - np.repeat(self.starts, number)
        tried = cumulative[curve, self.place + 1] - cumulative[curve, self.begins[category[self.place]]]
        self.best = so_far / (tried + EPSILON)
        for start, end in zip(self.starts.tolist(), (self.starts + number).tolist(), strict=True):
            falling = self.best[start:end][::-1]  # the maximum precision at this recall or a higher one
            np.maximum.accumulate(falling, out=falling)

    def _at(self, needed: Integers) -> tuple[Integers, Booleans]:
        """The true positive that reaches each recall, and whether it exists: [thresholds, recalls, categories]."""
        reached = needed[None] < self.number[:, None, :]
        place = self.starts.reshape(self.number.shape)[:, None, :] + needed[None]
        return np.where(reached, place, 0), reached

    def precision(self, needed: Integers) -> Floats:
        place, reached = self._at(needed)
        return np.where(reached, self.best[place], 0.0) if len(self.best) else np.zeros(place.shape)

    def scores(self, needed: Integers, settings: Settings) -> Floats:
        """The score of the detection that reaches each recall; the first detection reaches recall 0."""
        place, reached = self._at(needed)
        scores = np.where(reached, self.score[self.place[place]], 0.0) if len(self.best) else np.zeros(place.shape)
        some = np.flatnonzero(np.diff(self.begins))
        for at in np.flatnonzero(np.asarray(settings.recall_thresholds) <= 0).tolist():
            scores[:, at, some] = self.score[self.begins[some]]
        return scores

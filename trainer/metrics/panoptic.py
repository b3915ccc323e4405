"""Panoptic quality (Kirillov et al. 2019): recognition and segmentation quality of things and stuff."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from trainer import TrainerError
from trainer.engine import Tensor
from trainer.metrics.metric import WEIGHT, Metric, Part, Place, Report, State
from trainer.metrics.predictions import Predictions

VOID = -1
"""Value of pixels without a segment."""


class PanopticQuality(Metric):
    """The sum of IoUs of matched segments, divided by the number of matched plus half of unmatched segments.

    `segments` and `true_segments` are int32 [B, H, W], each pixel class * `per_class` + number of its segment, or -1
    for none. Segments of one class match if their IoU exceeds one half. Pixels without a target segment are ignored,
    and so are predicted segments mostly on them. Equivalent to panopticapi without crowds. Averaged over the classes
    that occur; `segmentation` is the mean IoU of matches, `recognition` their F1 score. IoUs are summed in float64, so
    the order of batches may change the last bits.

    Args:
        classes: number of classes.
        per_class: an integer greater than the number of segments of a class in any image.
    """

    needs = ("segments", "true_segments")
    folds_in: Place = "worker"

    def __init__(self, classes: int, per_class: int = 1000) -> None:
        self.classes, self.per_class = classes, per_class

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        segments, right = given["segments"], given["true_segments"]
        if segments.shape != right.shape or segments.ndim != 3:
            raise TrainerError(
                "the shapes of segments and true segments don't match",
                found=f"{list(segments.shape)} and {list(right.shape)}",
                expected="both [B, H, W]",
            )
        return {"segments": segments, "true_segments": right}

    def fold(self, state: State, part: Part) -> State:
        table = np.array(state["table"]) if state else np.zeros((4, self.classes))
        for row in np.flatnonzero(part[WEIGHT]).tolist():
            table += self.compared(part["segments"][row], part["true_segments"][row])
        return {"table": table}

    def compared(self, found: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The contribution of an image, float64 [4, classes]: IoUs of matches, matches, false positives, false
        negatives.
        """
        pairs, shared = np.unique(np.stack([found.reshape(-1), right.reshape(-1)]), axis=1, return_counts=True)
        ours, our_area = _areas(pairs[0], shared)
        theirs, their_area = _areas(pairs[1], shared)
        for segments in (ours, theirs):
            if segments.max(initial=VOID) >= self.classes * self.per_class:
                raise TrainerError(
                    "unknown class of a segment",
                    found=f"segment {segments.max()}, class {segments.max() // self.per_class}",
                    expected=f"class * {self.per_class} + number, classes 0 to {self.classes - 1}",
                )
        table = np.zeros((4, self.classes))
        unlabeled = dict(zip(pairs[0][pairs[1] < 0].tolist(), shared[pairs[1] < 0].tolist(), strict=True))
        is_pair = (pairs[0] >= 0) & (pairs[1] >= 0) & (pairs[0] // self.per_class == pairs[1] // self.per_class)
        one, other, common = pairs[0][is_pair], pairs[1][is_pair], shared[is_pair]
        outside = np.array([unlabeled.get(segment, 0) for segment in one.tolist()])
        union = our_area[np.searchsorted(ours, one)] + their_area[np.searchsorted(theirs, other)] - common - outside
        matched = 2 * common > union
        np.add.at(table[0], one[matched] // self.per_class, common[matched] / union[matched])
        np.add.at(table[1], one[matched] // self.per_class, 1)
        for segment, area in zip(ours.tolist(), our_area.tolist(), strict=True):
            if segment >= 0 and segment not in one[matched] and 2 * unlabeled.get(segment, 0) <= area:
                table[2, segment // self.per_class] += 1
        for segment in theirs[(theirs >= 0) & ~np.isin(theirs, other[matched])].tolist():
            table[3, segment // self.per_class] += 1
        return table

    def values(self, state: State) -> Mapping[str, float]:
        columns = self._by_class(state)
        occurs = ~np.isnan(columns[""])
        return {key: float(np.mean(values[occurs])) if occurs.any() else math.nan for key, values in columns.items()}

    def reports(self, state: State) -> Mapping[str, Report]:
        columns = self._by_class(state)
        return {"": Report("per_class", {"columns": {"quality": columns.pop(""), **columns}})}

    @staticmethod
    def _by_class(state: State) -> dict[str, np.ndarray]:
        """The three qualities of each class; NaN for a class that does not occur."""
        overlaps, matched, wrong, missed = state["table"]
        all_segments = matched + (wrong + missed) / 2
        recognition = np.divide(matched, all_segments, out=np.full(len(matched), np.nan), where=all_segments > 0)
        segmentation = np.divide(overlaps, matched, out=np.where(all_segments > 0, 0.0, np.nan), where=matched > 0)
        return {"": segmentation * recognition, "segmentation": segmentation, "recognition": recognition}


def _areas(segments: np.ndarray, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The segments, ascending, and their numbers of pixels."""
    names, place = np.unique(segments, return_inverse=True)
    return names, np.bincount(place, weights=pixels, minlength=len(names)).astype(np.int64)

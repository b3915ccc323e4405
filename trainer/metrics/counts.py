"""Metrics of true and false positives and negatives: precision, recall, F-beta, specificity, IoU, Dice."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import ClassVar, Literal

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import Tensor, float32, float64
from trainer.metrics.classes import Examples, examples, refuse_outside
from trainer.metrics.metric import Metric, Report, State
from trainer.metrics.predictions import Predictions

Average = Literal["macro", "micro", "weighted"]
Counts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""By class, float64: true positives, false positives, false negatives, true negatives."""


class ClassCounts(Metric):
    """A value per class from its true and false positives and negatives, averaged over classes.

    Args:
        average: "macro": unweighted mean over classes that occur or are predicted; "weighted": weighted by class
            frequency in the ground truth; "micro": pooled counts of all classes.
        threshold: minimum probability of a predicted class, for binary and multi-label tasks.
        top_k: predict the k classes with the highest scores instead, for multi-class and multi-label tasks.
        ignore_index: ignored label, in addition to -1; None: 255 for pixels.
        exclude: classes excluded from the average, such as the background.
    """

    needs = ("logits|scores", "labels|labels_hot")
    column: ClassVar[str] = ""
    """The metric's name in a table with a row per class."""

    def __init__(
        self,
        average: Average = "macro",
        threshold: float = 0.5,
        top_k: int | None = None,
        ignore_index: int | None = None,
        exclude: tuple[int, ...] = (),
    ) -> None:
        self.average, self.threshold, self.top_k = average, threshold, top_k
        self.ignore_index, self.exclude = ignore_index, exclude

    def state_key(self) -> Hashable:
        return ClassCounts, self.threshold, self.top_k, self.ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given, self.ignore_index)
        weight = found.counts()
        total = engine.reshape(engine.sum(weight, dtype=float64), (1,))
        if found.labels is None or found.is_binary or self.top_k is not None:
            counts = self._of_choices(found)
        else:
            counts = _of_best(found)
        return {**counts, "all": total, "outside": found.outside()}

    def _of_choices(self, found: Examples) -> dict[str, Tensor]:
        """The counts if each class is predicted independently of the others."""
        chosen = found.over(self.threshold) if self.top_k is None else greatest(found.scores, self.top_k)
        weight = engine.expand_dims(found.counts(), axis=1)
        picked, right = chosen.astype(float32) * weight, found.right()
        return {
            "both": _by_class(picked * right),
            "chosen": _by_class(picked),
            "right": _by_class(right * weight),
        }

    def values(self, state: State) -> Mapping[str, float]:
        by_class, counts = self._by_class(state)
        if self.average == "micro":
            kept = self._kept(len(by_class))
            total: Counts = tuple(each[kept].sum() for each in counts)
            return {"": float(self.of(total))}
        weights = counts[0] + counts[2] if self.average == "weighted" else np.ones(len(by_class))
        counted = ~np.isnan(by_class) & self._kept(len(by_class)) & (weights > 0)
        if not counted.any():
            return {"": math.nan}
        return {"": float(np.sum(by_class[counted] * weights[counted]) / np.sum(weights[counted]))}

    def reports(self, state: State) -> Mapping[str, Report]:
        by_class, (both, _, missed, _) = self._by_class(state)
        if len(by_class) == 1:
            return {}
        return {"": Report("per_class", {"columns": {self.column: by_class, "support": both + missed}})}

    def of(self, counts: Counts) -> np.ndarray:
        """The value from counts, element by element; NaN for a class that neither occurs nor is predicted."""
        raise TrainerError(f"{type(self).__name__} has no `of` method")

    def _by_class(self, state: State) -> tuple[np.ndarray, Counts]:
        refuse_outside(float(state["outside"]))
        both, chosen, right = (np.asarray(state[name], np.float64) for name in ("both", "chosen", "right"))
        counts = both, chosen - both, right - both, state["all"] - chosen - right + both
        return np.asarray(self.of(counts), np.float64), counts

    def _kept(self, classes: int) -> np.ndarray:
        return ~np.isin(np.arange(classes), self.exclude)


class Precision(ClassCounts):
    """TP / (TP + FP), 0 for a class that occurs but is never predicted: scikit-learn's `precision_score`."""

    column = "precision"

    def of(self, counts: Counts) -> np.ndarray:
        true, false, missed, _ = counts
        return over(true, true + false, missed)


class Recall(ClassCounts):
    """TP / (TP + FN), 0 for a class that is predicted but never occurs: scikit-learn's `recall_score`."""

    column = "recall"

    def of(self, counts: Counts) -> np.ndarray:
        true, false, missed, _ = counts
        return over(true, true + missed, false)


class FBeta(ClassCounts):
    """(1 + β²) TP / ((1 + β²) TP + β² FN + FP): `fbeta_score`, the harmonic mean of precision and recall at β = 1."""

    column = "f_beta"

    def __init__(
        self,
        beta: float = 1.0,
        average: Average = "macro",
        threshold: float = 0.5,
        top_k: int | None = None,
        ignore_index: int | None = None,
        exclude: tuple[int, ...] = (),
    ) -> None:
        super().__init__(average, threshold, top_k, ignore_index, exclude)
        self.beta = beta

    def of(self, counts: Counts) -> np.ndarray:
        true, false, missed, _ = counts
        squared = self.beta**2
        return over((1 + squared) * true, (1 + squared) * true + squared * missed + false)


class Specificity(ClassCounts):
    """TN / (TN + FP): the recall of the negatives."""

    column = "specificity"

    def of(self, counts: Counts) -> np.ndarray:
        true, false, missed, rest = counts
        value = over(rest, rest + false)
        return np.where(true + false + missed > 0, value, np.nan)


class IoU(ClassCounts):
    """TP / (TP + FP + FN), the Jaccard index: scikit-learn's `jaccard_score`; over pixels the mean IoU."""

    column = "iou"

    def of(self, counts: Counts) -> np.ndarray:
        true, false, missed, _ = counts
        return over(true, true + false + missed)


class Dice(ClassCounts):
    """2 TP / (2 TP + FP + FN), the Sørensen-Dice coefficient of all pixels of the split: F-beta at β = 1."""

    column = "dice"

    def of(self, counts: Counts) -> np.ndarray:
        true, false, missed, _ = counts
        return over(2 * true, 2 * true + false + missed)


def over(numerator: np.ndarray, denominator: np.ndarray, otherwise: np.ndarray | float = 0.0) -> np.ndarray:
    """numerator / denominator; for a denominator of 0: 0 if `otherwise` is above 0, else NaN."""
    numerator, denominator = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    undefined = np.where(np.asarray(otherwise) > 0, 0.0, np.nan)
    return np.where(denominator > 0, numerator / np.where(denominator > 0, denominator, 1), undefined)


def greatest(scores: Tensor, k: int) -> Tensor:
    """Whether each class is among the k highest scores, bool as `scores` [B, C, P]; ties go to the first classes."""
    numbers = engine.reshape(engine.arange(scores.shape[1]), (1, scores.shape[1], 1))
    chosen, rest = None, scores
    for _ in range(min(k, scores.shape[1])):
        best = engine.argmax(rest, axis=1, keepdims=True) == numbers
        chosen = best if chosen is None else chosen | best
        rest = engine.where(best, engine.full_like(rest, -math.inf), rest)
    assert chosen is not None
    return chosen


def _of_best(found: Examples) -> dict[str, Tensor]:
    """The counts if one class per example is predicted."""
    assert found.labels is not None
    best = found.best().astype(found.labels.dtype)
    counted = found.labels >= 0
    nowhere = engine.full_like(found.labels, -1)
    weight = engine.reshape(found.counts().astype(float64), (-1,))

    def counts(numbers: Tensor, where: Tensor) -> Tensor:
        places = engine.reshape(engine.where(where, numbers, nowhere), (-1,))
        return engine.bincount(places, length=found.classes, weights=weight)

    return {
        "both": counts(best, counted & (best == found.labels)),
        "chosen": counts(best, counted),
        "right": counts(found.labels, counted),
    }


def _by_class(values: Tensor) -> Tensor:
    """Sums of [B, C, P] by class, float64 [C]."""
    return engine.sum(values, axis=(0, 2), dtype=float64)

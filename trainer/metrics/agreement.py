"""Metrics of a confusion matrix: balanced accuracy, Matthews correlation, Cohen's kappa; and the Hamming loss."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Literal

import numpy as np

from trainer import engine
from trainer.engine import Tensor, float32, float64
from trainer.metrics.classes import examples, refuse_outside
from trainer.metrics.confusion import Confusion
from trainer.metrics.metric import State
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Ratio


class _Agreement(Confusion):
    """One value from a confusion matrix; NaN for an empty matrix."""

    def of(self, counts: np.ndarray) -> Mapping[str, float]:
        return {"": self.figure(counts) if counts.any() else math.nan}

    def figure(self, counts: np.ndarray) -> float:
        """The value from counts [C, C], target classes in rows, that are not all 0."""
        raise NotImplementedError


class BalancedAccuracy(_Agreement):
    """The mean recall of the classes that occur: `balanced_accuracy_score`.

    Args:
        adjusted: rescale so that random guessing scores 0 and perfect predictions score 1.
    """

    def __init__(self, adjusted: bool = False, threshold: float = 0.5, ignore_index: int | None = None) -> None:
        super().__init__(threshold, ignore_index)
        self.adjusted = adjusted

    def figure(self, counts: np.ndarray) -> float:
        occurs = counts.sum(axis=1) > 0
        mean = float(np.mean(np.diag(counts)[occurs] / counts.sum(axis=1)[occurs]))
        if not self.adjusted:
            return mean
        guessing = 1 / np.count_nonzero(occurs)
        return (mean - guessing) / (1 - guessing) if guessing < 1 else math.nan


class Matthews(_Agreement):
    """Matthews correlation coefficient of target and predicted classes, for any number of classes (Gorodkin 2004):
    `matthews_corrcoef`.

    0 if there is only one target class or only one predicted class.
    """

    def figure(self, counts: np.ndarray) -> float:
        right, chosen, total = counts.sum(axis=1), counts.sum(axis=0), counts.sum()
        spread = (total * total - right @ right) * (total * total - chosen @ chosen)
        return float((np.trace(counts) * total - right @ chosen) / math.sqrt(spread)) if spread > 0 else 0.0


class Kappa(_Agreement):
    """Cohen's kappa: agreement corrected for chance, at most 1: `cohen_kappa_score`.

    Args:
        weights: weight of a misclassification: constant ("none"), distance between the class numbers ("linear"), or
            squared distance ("quadratic").
    """

    def __init__(
        self,
        weights: Literal["none", "linear", "quadratic"] = "none",
        threshold: float = 0.5,
        ignore_index: int | None = None,
    ) -> None:
        super().__init__(threshold, ignore_index)
        self.weights = weights

    def figure(self, counts: np.ndarray) -> float:
        distance = np.abs(np.subtract.outer(np.arange(len(counts)), np.arange(len(counts)))).astype(float)
        weights = {"none": np.sign(distance), "linear": distance, "quadratic": distance**2}[self.weights]
        by_chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
        expected = float((weights * by_chance).sum())
        return 1 - float((weights * counts).sum()) / expected if expected else math.nan


class Hamming(Ratio):
    """The fraction of wrong labels: `hamming_loss`. Equal to 1 - accuracy for single-label data; with multi-label data
    every class counts separately.
    """

    needs = ("logits|scores", "labels|labels_hot")

    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None) -> None:
        self.threshold, self.ignore_index = threshold, ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given, self.ignore_index)
        if found.labels is not None and not found.is_binary:
            wrong = engine.expand_dims((found.best() != found.labels).astype(float32), axis=1)
        else:
            wrong = (found.over(self.threshold).astype(float32) != found.right()).astype(float32)
        counts = engine.broadcast_to(engine.expand_dims(found.counts(), axis=1), wrong.shape)
        return {
            "numerator": engine.sum(wrong * counts, dtype=float64),
            "denominator": engine.sum(counts, dtype=float64),
            "outside": found.outside(),
        }

    def values(self, state: State) -> Mapping[str, float]:
        refuse_outside(float(state["outside"]))
        return super().values(state)

    def state_key(self) -> Hashable:
        return Hamming, self.threshold, self.ignore_index

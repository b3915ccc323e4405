"""Exact areas under curves, from all scores of the split."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, Protocol

import numpy as np

from trainer import TrainerError
from trainer.engine import Tensor
from trainer.metrics.classes import examples, refuse_outside
from trainer.metrics.metric import WEIGHT, State
from trainer.metrics.predictions import Predictions
from trainer.metrics.rows import Rows

Average = Literal["macro", "weighted", "micro"]


@dataclass(frozen=True)
class Steps:
    """Weights of positive and negative examples at or above each threshold, from the highest threshold down.

    Arrays of equal length, one entry per distinct score.
    """

    true: np.ndarray
    false: np.ndarray
    thresholds: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> Steps:
        """Computes the steps from scores [N], positive examples (bool [N]) and weights [N].

        Sums of integer weights are exact, so the order of the examples does not matter.
        """
        order = np.argsort(-scores, kind="stable")
        scores, positive = scores[order], positive[order]
        ends = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1) if len(scores) else np.zeros(0, np.int64)
        weight = weight[order].astype(np.float64)
        true, false = np.cumsum(weight * positive)[ends], np.cumsum(weight * ~positive)[ends]
        return cls(true, false, scores[ends])

    @property
    def positives(self) -> float:
        """The weight of all positive examples."""
        return float(self.true[-1]) if len(self.true) else 0.0

    @property
    def negatives(self) -> float:
        """The weight of all negative examples."""
        return float(self.false[-1]) if len(self.false) else 0.0


def roc_area(steps: Steps) -> float:
    """The area under the ROC curve, by trapezoids; NaN without positive or without negative examples."""
    if not steps.positives or not steps.negatives:
        return math.nan
    true, false = np.append(0, steps.true), np.append(0, steps.false)
    return float(np.sum(np.diff(false) * (true[1:] + true[:-1])) / 2 / (steps.positives * steps.negatives))


def average_precision(steps: Steps) -> float:
    """Precision at each threshold weighted by the gain in recall; NaN without positive examples."""
    if not steps.positives:
        return math.nan
    gains = np.diff(np.append(0, steps.true))
    return float(np.sum(gains * steps.true / (steps.true + steps.false)) / steps.positives)


class Stepped(Protocol):
    """Interface for areas and curves: steps from a metric's state."""

    def steps(self, state: State) -> list[Steps]:
        """One-vs-rest for each class."""

    def steps_together(self, state: State) -> Steps:
        """All (example, class) pairs pooled."""


class Ranked(Rows):
    """Keeps the probabilities, float32 [N, C], and the targets: labels int32 [N], or "hot" float32 [N, C].

    Each pixel is an example. For binary tasks C is 1.
    """

    needs = ("logits|scores", "labels|labels_hot")

    def __init__(self, ignore_index: int | None = None) -> None:
        self.ignore_index = ignore_index

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        found = examples(given, self.ignore_index)
        rows = {"scores": found.probabilities()}
        return {**rows, "labels": found.labels} if found.labels is not None else {**rows, "hot": found.right()}

    def fold(self, state: State, part: Mapping[str, np.ndarray]) -> State:
        scores, weight = np.moveaxis(part["scores"], 1, -1), part[WEIGHT]
        examples_a_row = scores.shape[1]
        rows = {"scores": scores.reshape(-1, scores.shape[-1]), WEIGHT: np.repeat(weight, examples_a_row)}
        if "hot" in part:
            return super().fold(state, {**rows, "hot": part["hot"][..., 0]})
        labels = part["labels"].reshape(-1)
        classes = max(2, rows["scores"].shape[1])
        refuse_outside(float(np.count_nonzero((labels >= classes) & (rows[WEIGHT] != 0))))
        return super().fold(state, {**rows, "labels": labels, WEIGHT: np.where(labels >= 0, rows[WEIGHT], 0)})

    def state_key(self) -> Hashable:
        return Ranked, self.ignore_index

    def steps(self, state: State) -> list[Steps]:
        """One-vs-rest for each class; for a binary task, the positive class only."""
        return [Steps.of(scores, positive, state[WEIGHT]) for scores, positive in one_against_rest(state)]

    def steps_together(self, state: State) -> Steps:
        """All (example, class) pairs pooled."""
        scores, positive = (np.concatenate(each) for each in zip(*one_against_rest(state), strict=True))
        return Steps.of(scores, positive, np.tile(state[WEIGHT], len(scores) // max(1, len(state[WEIGHT]))))


def one_against_rest(state: State) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each class's scores [N] and which examples are positive; for a binary task, the positive class only."""
    scores = state["scores"]
    for number in range(scores.shape[1]):
        if "hot" in state:
            yield scores[:, number], state["hot"][:, number] > 0.5
        else:
            yield scores[:, number], state["labels"] == (1 if scores.shape[1] == 1 else number)


def mean_area(areas: Sequence[float], weights: Sequence[float], average: Average) -> float:
    """The mean of the defined areas: unweighted, or "weighted" by `weights`."""
    if average != "weighted":
        weights = [1.0] * len(areas)
    defined = [(area, weight) for area, weight in zip(areas, weights, strict=True) if not math.isnan(area)]
    total = sum(weight for _, weight in defined)
    return sum(area * weight for area, weight in defined) / total if total else math.nan


def area_of_all(metric: Stepped, state: State, area: Callable[[Steps], float], average: Average) -> float:
    """An area averaged over classes."""
    if average == "micro":
        return area(metric.steps_together(state))
    steps = metric.steps(state)
    return mean_area([area(one) for one in steps], [one.positives for one in steps], average)


class RocAuc(Ranked):
    """The area under the ROC curve, ties counted half (Fawcett 2006): scikit-learn's `roc_auc_score`.

    Args:
        average: "macro": unweighted mean over the classes for which it is defined; "weighted": weighted by class
            frequency; "micro": pooled, all (example, class) pairs.
        pairs: one-vs-one (Hand and Till 2001; "weighted" by the number of examples of both classes) instead of
            one-vs-rest.
        ignore_index: ignored label, in addition to -1; None: 255 for pixels.
    """

    def __init__(self, average: Average = "macro", pairs: bool = False, ignore_index: int | None = None) -> None:
        super().__init__(ignore_index)
        self.average, self.pairs = average, pairs

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        if self.pairs and "labels" not in given:
            raise TrainerError("multi-label tasks have no pairs of classes", expected="roc_auc with pairs: false")
        return super().partial(given)

    def values(self, state: State) -> Mapping[str, float]:
        scores, weight = state["scores"], state[WEIGHT]
        if not self.pairs or scores.shape[1] == 1:
            return {"": area_of_all(self, state, roc_area, self.average)}
        labels, areas, shares = state["labels"], [], []
        for one, other in combinations(range(scores.shape[1]), 2):
            among = (labels == one) | (labels == other)
            both = [
                roc_area(Steps.of(scores[among, number], labels[among] == number, weight[among]))
                for number in (one, other)
            ]
            areas.append(sum(both) / 2)
            shares.append(float(weight[among].sum()))
        return {"": mean_area(areas, shares, self.average)}


class AveragePrecision(Ranked):
    """The area under the precision-recall curve as a sum of steps: scikit-learn's `average_precision_score`.

    Args:
        average: as in `RocAuc`.
        ignore_index: as in `RocAuc`.
    """

    def __init__(self, average: Average = "macro", ignore_index: int | None = None) -> None:
        super().__init__(ignore_index)
        self.average = average

    def values(self, state: State) -> Mapping[str, float]:
        return {"": area_of_all(self, state, average_precision, self.average)}

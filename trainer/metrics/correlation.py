"""Correlation of predicted numbers and targets: R², Pearson's and Spearman's correlation."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import Tensor, float32, float64
from trainer.metrics.metric import Metric, State
from trainer.metrics.predictions import Predictions
from trainer.metrics.rows import Rows


class _Sums(Metric):
    """First and second moments of predictions and targets, weighted by row.

    Summed in float64: if the mean is a thousand times the spread, a variance loses six of sixteen digits.
    """

    needs = ("predicted", "target")

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        predicted, target = _pair(given, type(self).__name__)
        weight = engine.reshape(given.weight.astype(float64), (-1, 1))

        def total(value: Tensor) -> Tensor:
            return engine.sum(weight * value)

        return {
            "count": total(engine.ones_like(target)),
            "predicted": total(predicted),
            "target": total(target),
            "predicted_squares": total(predicted * predicted),
            "target_squares": total(target * target),
            "products": total(predicted * target),
            "errors": total(engine.square(predicted - target)),
        }

    def state_key(self) -> Hashable:
        return _Sums


class R2(_Sums):
    """The coefficient of determination, 1 - squared errors / squared deviations of the targets: `r2_score` of all
    values as one column. NaN if the targets are constant.
    """

    def values(self, state: State) -> Mapping[str, float]:
        count, target = float(state["count"]), float(state["target"])
        deviations = float(state["target_squares"]) - target * target / count if count else 0.0
        return {"": 1 - float(state["errors"]) / deviations if deviations > 0 else math.nan}


class Pearson(_Sums):
    """Pearson correlation of all values, -1 to 1: `scipy.stats.pearsonr`. NaN if either side is constant."""

    def values(self, state: State) -> Mapping[str, float]:
        count = float(state["count"])
        if not count:
            return {"": math.nan}
        one, other = float(state["predicted"]), float(state["target"])
        spread = (float(state["predicted_squares"]) - one * one / count) * (
            float(state["target_squares"]) - other * other / count
        )
        together = float(state["products"]) - one * other / count
        return {"": max(-1.0, min(1.0, together / math.sqrt(spread))) if spread > 0 else math.nan}


class Spearman(Rows):
    """Pearson correlation of ranks, with the mean rank for equal values: `scipy.stats.spearmanr`.

    Each value of a row with weight counts once. Sums of ranks are exact, so their order does not matter.
    """

    needs = ("predicted", "target")

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        predicted, target = _pair(given, type(self).__name__)
        return {"predicted": predicted.astype(float32), "target": target.astype(float32)}

    def values(self, state: State) -> Mapping[str, float]:
        one, other = (ranks(state[name].reshape(-1)) for name in ("predicted", "target"))
        count = len(one)
        if not count:
            return {"": math.nan}
        mean = (count + 1) / 2
        one, other = one - mean, other - mean
        spread = math.sqrt(float(np.sum(np.sort(one * one))) * float(np.sum(np.sort(other * other))))
        return {"": float(np.sum(np.sort(one * other))) / spread if spread else math.nan}

    def state_key(self) -> Hashable:
        return Spearman


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value from 1, float64 [N]; equal values share their mean rank."""
    order = np.argsort(values, kind="stable")
    begins = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    counts = np.diff(begins, append=len(values))
    found = np.empty(len(values))
    found[order] = np.repeat(begins + (counts + 1) / 2, counts)
    return found


def _pair(given: Predictions, what: str) -> tuple[Tensor, Tensor]:
    """Predictions and targets as float64 [B, P]."""
    predicted, target = given["predicted"], given["target"]
    if predicted.shape != target.shape:
        raise TrainerError(
            f"the target of {what} has another shape than the prediction",
            found=f"target {list(target.shape)} for predicted {list(predicted.shape)}",
            expected="the same shape",
        )
    rows = (predicted.shape[0], math.prod(predicted.shape[1:]))
    return engine.reshape(predicted.astype(float64), rows), engine.reshape(target.astype(float64), rows)

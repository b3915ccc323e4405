"""Errors of predicted numbers relative to their targets."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

from trainer import TrainerError, engine
from trainer.engine import Tensor, float64
from trainer.metrics.metric import State
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import Ratio


class MeanAbsoluteError(Ratio):
    """The mean of |predicted - target| over all values of all rows: scikit-learn's `mean_absolute_error`."""

    needs = ("predicted", "target")

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        errors = engine.reshape(self.error(difference(given)), (given.rows, -1))
        weight = given.weight.astype(float64)
        return {
            "numerator": engine.sum(engine.sum(errors, axis=1) * weight),
            "denominator": engine.sum(weight) * (errors.size // max(1, given.rows)),
        }

    def error(self, away: Tensor) -> Tensor:
        """The value to average, from differences in float64."""
        return engine.abs(away)


class MeanSquaredError(MeanAbsoluteError):
    """The mean of (predicted - target)² over all values of all rows: scikit-learn's `mean_squared_error`."""

    def state_key(self) -> Hashable:
        return MeanSquaredError

    def error(self, away: Tensor) -> Tensor:
        return away * away


class RootMeanSquaredError(MeanSquaredError):
    """The square root of the mean squared error of the whole split: `root_mean_squared_error`."""

    def values(self, state: State) -> Mapping[str, float]:
        return {name: math.sqrt(value) for name, value in super().values(state).items()}


def difference(given: Predictions) -> Tensor:
    """predicted - target in float64.

    Raises:
        TrainerError: their shapes differ.
    """
    predicted, target = given["predicted"], given["target"]
    if predicted.shape != target.shape:
        raise TrainerError(
            "the shapes of prediction and target differ",
            found=f"{list(predicted.shape)} and {list(target.shape)}",
            expected="equal shapes",
        )
    return predicted.astype(float64) - target.astype(float64)

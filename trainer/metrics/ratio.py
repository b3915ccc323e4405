"""Metrics that are a ratio of two sums, such as the mean of a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainer import TrainerError
from trainer.engine import Tensor, astype, full, reshape
from trainer.engine import sum as sum_of
from trainer.metrics.metric import Measured, Metric, State


class Ratio(Metric):
    """A metric whose parts are "numerator" and "denominator". NaN if all weights are 0."""

    def values(self, state: State) -> Mapping[str, float]:
        return {"": divided(state["numerator"], state["denominator"])}


class Mean(Measured):
    """sum(weight * value) / sum(weight) over all batches.

    `value` is a float tensor [B, ...] (one or more values per row), `weight` [B] or None for all 1. A scalar `value` (a
    batch's mean) needs its number of rows as a scalar `weight`; otherwise all batches have the same weight.

    A step returns `{"loss": Mean(losses, batch["weight"])}`.

    Attributes:
        rows: the values [B, ...] if there is one per row; otherwise None.
    """

    def __init__(self, value: Tensor, weight: Tensor | None = None) -> None:
        super().__init__(Ratio())
        self.numerator, self.denominator = weighted(value, weight, what="Mean")
        self.rows = value if weight is not None and weight.ndim == 1 else None

    @property
    def value(self) -> Tensor:
        """The mean of this batch only, as a tensor; for a loss, the value that an optimizer minimizes."""
        return self.numerator / self.denominator

    def partial(self) -> Mapping[str, Tensor]:
        return {"numerator": self.numerator, "denominator": self.denominator}


def divided(numerator: Any, denominator: Any) -> float:
    """numerator / denominator; NaN if the denominator is 0."""
    return float(numerator) / float(denominator) if denominator else math.nan


def weighted(value: Tensor, weight: Tensor | None, *, what: str) -> tuple[Tensor, Tensor]:
    """(sum of weight * value, sum of the weights), scalars of the value's dtype.

    `weight` is [B] and `value` [B, ...]: all values of a row share its weight; None: weight 1.
    """
    if weight is None:
        return sum_of(value), full((), float(value.size), dtype=value.dtype)
    if weight.ndim > value.ndim or weight.shape != value.shape[: weight.ndim]:
        raise TrainerError(
            f"the shape of the weights of {what} doesn't match its values",
            found=f"weights {list(weight.shape)} for values {list(value.shape)}",
            expected="one weight per row: the leading axes of the values",
        )
    rows = reshape(astype(weight, value.dtype), (*weight.shape, *(1,) * (value.ndim - weight.ndim)))
    values_a_row = value.size // max(1, weight.size)
    return sum_of(value * rows), sum_of(rows) * values_a_row

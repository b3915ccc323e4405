"""Metrics that are one sum divided by another, and the mean of a value: a loss, say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainer import TrainerError
from trainer.engine import Tensor, astype, full, reshape
from trainer.engine import sum as sum_of
from trainer.metrics.metric import Measured, Metric, State


class Ratio(Metric):
    """A metric whose parts are "numerator" and "denominator". Without any weight its value is nan."""

    def values(self, state: State) -> Mapping[str, float]:
        return {"": divided(state["numerator"], state["denominator"])}


class Mean(Measured):
    """sum(weight * value) / sum(weight) over all batches.

    `value` is a float tensor [B, ...] (one or more values a row), `weight` [B] or None for all 1. A scalar `value` (a
    batch's mean) needs the number of rows it stands for as a scalar `weight`, or batches count alike.

    A step returns `{"loss": Mean(losses, batch["weight"])}`.

    Attributes:
        rows: the values [B, ...] where each row has its own; else None.
    """

    def __init__(self, value: Tensor, weight: Tensor | None = None) -> None:
        super().__init__(Ratio())
        self.numerator, self.denominator = weighted(value, weight, what="Mean")
        self.rows = value if weight is not None and weight.ndim == 1 else None

    @property
    def value(self) -> Tensor:
        """The mean of this batch alone, as a tensor: of a loss, what an optimizer minimizes."""
        return self.numerator / self.denominator

    def partial(self) -> Mapping[str, Tensor]:
        return {"numerator": self.numerator, "denominator": self.denominator}


def divided(numerator: Any, denominator: Any) -> float:
    """Their ratio; nan where the denominator is 0."""
    return float(numerator) / float(denominator) if denominator else math.nan


def weighted(value: Tensor, weight: Tensor | None, *, what: str) -> tuple[Tensor, Tensor]:
    """(sum of weight * value, sum of the weights), scalars of the value's dtype.

    `weight` is [B] against `value` [B, ...]: all values of a row share its weight. Without one every value weighs 1.
    """
    if weight is None:
        return sum_of(value), full((), float(value.size), dtype=value.dtype)
    if weight.ndim > value.ndim or weight.shape != value.shape[: weight.ndim]:
        raise TrainerError(
            f"the weights of {what} don't fit its values",
            found=f"weights {list(weight.shape)} for values {list(value.shape)}",
            expected="one weight for each row: the leading axes of the values",
        )
    rows = reshape(astype(weight, value.dtype), (*weight.shape, *(1,) * (value.ndim - weight.ndim)))
    values_a_row = value.size // max(1, weight.size)
    return sum_of(value * rows), sum_of(rows) * values_a_row

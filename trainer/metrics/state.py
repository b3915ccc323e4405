"""Metrics as accumulated states: each is a few sums that add up over batches, and a rule that finishes them.

A metric object lives inside a traced step. It holds the sums of one batch as tensors (`partial`), which the learner
adds to accumulators of its own; at the end of a period it hands the totals, as numbers, to the class' `finish`. So the
result is that of the whole period, never a mean of per-batch ratios, and padded rows (weight 0) do not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from trainer import TrainerError
from trainer.engine import Tensor, astype, full, reshape
from trainer.engine import sum as sum_of


@runtime_checkable
class Metric(Protocol):
    """What the learner needs of a metric."""

    def partial(self) -> dict[str, Tensor]:
        """The sums of one batch: scalars by name, the same names for every batch."""

    @classmethod
    def finish(cls, totals: Mapping[str, float]) -> float:
        """The metric's value from the sums of all batches."""


class Ratio:
    """A metric that is one sum divided by another. Finishing without any weight gives nan."""

    def __init__(self, numerator: Tensor, denominator: Tensor) -> None:
        self.numerator, self.denominator = numerator, denominator

    @property
    def value(self) -> Tensor:
        """The ratio of this batch alone, as a tensor: of a loss, what an optimiser minimises."""
        return self.numerator / self.denominator

    def partial(self) -> dict[str, Tensor]:
        return {"numerator": self.numerator, "denominator": self.denominator}

    @classmethod
    def finish(cls, totals: Mapping[str, float]) -> float:
        return totals["numerator"] / totals["denominator"] if totals["denominator"] else math.nan


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

"""The mean of a value over a period, weighted."""

from __future__ import annotations

from trainer.engine import Tensor
from trainer.metrics.state import Ratio, weighted


class Mean(Ratio):
    """sum(weight * value) / sum(weight) over all batches: a loss per example, say.

    `value` is a float tensor [B, ...] (one or more values a row), `weight` [B] or None for all 1. A scalar `value` (a
    batch's mean) needs the number of rows it stands for as a scalar `weight`, or batches count alike.
    """

    def __init__(self, value: Tensor, weight: Tensor | None = None) -> None:
        super().__init__(*weighted(value, weight, what="Mean"))

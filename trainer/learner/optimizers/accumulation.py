"""Sums gradients of several micro-batches until they are applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trainer.engine import State, Tensor, float64, ones, zeros_like
from trainer.engine.nn import Parameter


class GradientSums:
    """The weighted sum of the gradients of each parameter, in the parameter's dtype, and the sum of the weights.

    Each micro-batch is weighted by its number of rows, so that the mean equals that of one large batch.
    """

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._sums = [
            State(np.zeros(parameter.shape), f"{name}.sum", parameter.dtype) for name, parameter in parameters.items()
        ]
        self._rows = State(np.zeros(()), "rows", float64)

    def named_states(self) -> dict[str, State]:
        """The sums so far by name, for a checkpoint in the middle of a step."""
        return {state.name or "sum": state for state in (self._rows, *self._sums)}

    def add(self, gradients: Sequence[Tensor], rows: Tensor | None, *, is_last: bool) -> list[Tensor] | None:
        """Adds a micro-batch of `rows` rows (a scalar); after the last one returns the means and resets the sums."""
        weight = ones((), dtype=float64) if rows is None else rows.astype(float64)
        total: Tensor = self._rows + weight
        sums: list[Tensor] = [
            state + gradient.astype(state.dtype) * weight.astype(state.dtype)
            for state, gradient in zip(self._sums, gradients, strict=True)
        ]
        for state, value in ((self._rows, total), *zip(self._sums, sums, strict=True)):
            state.assign(zeros_like(value) if is_last else value)
        return [value / total.astype(value.dtype) for value in sums] if is_last else None

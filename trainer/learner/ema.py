"""An exponential moving average of the weights (Polyak and Juditsky 1992), updated in the traced step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from trainer import engine
from trainer.engine import State, float64, int64

if TYPE_CHECKING:
    from trainer.configs import EmaConfig


class Ema:
    """The averages of states of a model: average ← d·average + (1 − d)·value after each step.

    d is `decay`, with a warm-up at most (1 + t) / (10 + t) at step t. Integers are copied. Buffers such as the
    statistics of norms are averaged as well, so that they match the averaged weights.
    """

    def __init__(self, config: EmaConfig, states: Mapping[str, State]) -> None:
        self.config, self._states = config, states
        self.averages = {name: State(state.numpy(), name, state.dtype) for name, state in states.items()}
        self.steps = State(np.zeros((), np.int64), "ema.steps", int64)
        self._kept: dict[str, np.ndarray] | None = None

    def update(self) -> None:
        """Updates the averages with the values of the states at the end of the step; part of the traced step."""
        step = self.steps.astype(float64)
        decay = step * 0 + self.config.decay
        if self.config.warmup:
            decay = engine.minimum(decay, (step + 1) / (step + 10))
        for name, state in self._states.items():
            average = self.averages[name]
            if state.dtype.is_float:
                average.assign(average + (state - average) * (1 - decay).astype(state.dtype))
            else:
                average.assign(state + engine.zeros_like(state))
        self.steps.assign(self.steps + 1)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside this context, the model has the averaged values."""
        self._kept = {name: state.numpy().copy() for name, state in self._states.items()}
        self._put({name: average.numpy() for name, average in self.averages.items()})
        try:
            yield
        finally:
            kept, self._kept = self._kept, None
            self._put(kept)

    @contextmanager
    def out_of_place(self) -> Iterator[None]:
        """Inside this context, the model has its raw values again, if it currently has the averages."""
        if self._kept is None:
            yield
            return
        self._put(self._kept)
        try:
            yield
        finally:
            self._put({name: average.numpy() for name, average in self.averages.items()})

    def _put(self, values: Mapping[str, np.ndarray]) -> None:
        for name, state in self._states.items():
            state.set_value(values[name])

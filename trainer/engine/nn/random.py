"""Reproducible random numbers for layers: a pure function of the module, the call and the step.

`RandomState` holds the step counter. Inside `with random_state.step():` each draw takes

- a key from (seed, path of the module, index of the module's draw within the step), fixed while tracing, and
- a counter from (step, micro-step), read from the state when the program runs.

In a step of `engine.scan`, the key is derived from this key and the number of the scan's step.

So each run of a traced step draws new numbers, recomputation repeats them, and a resumed run draws the same numbers as
an uninterrupted one. The bits are Philox 4x32-10's (Salmon et al. 2011).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from trainer import TrainerError
from trainer.engine import functions, random
from trainer.engine.functions.scan import steps
from trainer.engine.graph.dtypes import int32
from trainer.engine.sharding import random_counter, shard_count
from trainer.engine.state import State
from trainer.engine.tensor import Tensor, wrapped

_FOLDED = 0x5CA4
"""Second word of the counter from which a scan derives the key of each step; micro-steps of a layer stay below it."""

_active: ContextVar[RandomState | None] = ContextVar("random_state", default=None)


class RandomState:
    """The seed and the step counter of the random numbers of layers.

    `counter` is a state of int32 [2]: (step, micro-step). Save it with the model to resume.
    """

    def __init__(self, seed: int, name: str = "random") -> None:
        self.seed = seed
        self.counter = State(np.zeros(2, np.int32), f"{name}.counter", int32)
        self._draws: dict[str, int] = {}

    @contextmanager
    def step(self) -> Iterator[RandomState]:
        """Makes modules in the `with` block draw from this state, counting from 0. `advance` increments the counter."""
        self._draws.clear()
        token = _active.set(self)
        try:
            yield self
        finally:
            _active.reset(token)

    def advance(self) -> None:
        """Increments the step (call this inside the traced step, after all draws)."""
        is_step = functions.arange(2, dtype=int32) == 0
        self.counter.assign(self.counter + is_step.astype(int32))

    def bernoulli(self, path: str, probability: float, shape: tuple[int, ...]) -> Tensor:
        """True with `probability`: the next draw of the module at `path`."""
        return random.bernoulli(self._key(path), self.counter, probability, shape)

    def uniform(self, path: str, shape: tuple[int, ...]) -> Tensor:
        """float32 in [0, 1): the next draw at `path`, a module's or any name."""
        return random.uniform(self._key(path), self.counter, shape)

    def normal(self, path: str, shape: tuple[int, ...]) -> Tensor:
        """float32 with mean 0 and standard deviation 1: the next draw at `path`."""
        return random.normal(self._key(path), self.counter, shape)

    def draw(self, path: str) -> tuple[np.ndarray | Tensor, Tensor]:
        """Returns key and counter of the next draw at `path`, for a function that generates its own numbers."""
        counter: Tensor = self.counter
        if shard_count() > 1:
            counter = wrapped(random_counter(counter.node), counter)
        return self._key(path), counter

    def _key(self, path: str) -> np.ndarray | Tensor:
        draw = self._draws.get(path, 0)
        self._draws[path] = draw + 1
        key: np.ndarray | Tensor = random.key_for(self.seed, path, draw)
        for number in steps():  # a different key for each step of a scan
            key = random.bits(key, functions.stack([number, functions.asarray(_FOLDED, dtype=int32)]), (2,))
        return key


def active() -> RandomState:
    """Returns the random state of the active step.

    Raises:
        TrainerError: no step is active.
    """
    state = _active.get()
    if state is None:
        raise TrainerError(
            "a layer needs random numbers outside of a step",
            hint="Compute within `with nn.RandomState(seed).step():`, or call `.eval()` on the model.",
        )
    return state

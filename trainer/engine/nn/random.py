"""Random numbers of layers: a pure function of the module, the call and the step, so that they are reproducible.

`RandomState` holds the counter of the steps. Inside `with random_state.step():` each draw takes

- a key from (seed, path of the module, which draw of that module within the step), fixed while tracing, and
- a counter from (step, micro-step), read from the state when the program runs,

and in a step of `engine.scan` a key made of that one and the number of the step,

so each run of a traced step draws new numbers, recomputation repeats them, and a resumed run continues with the numbers
of an uninterrupted one. The bits are Philox 4x32-10's (Salmon et al. 2011).
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
    """The seed and the step counter from which layers draw.

    `counter` is a state of int32 [2]: (step, micro-step). Save it with the model to resume.
    """

    def __init__(self, seed: int, name: str = "random") -> None:
        self.seed = seed
        self.counter = State(np.zeros(2, np.int32), f"{name}.counter", int32)
        self._draws: dict[str, int] = {}

    @contextmanager
    def step(self) -> Iterator[RandomState]:
        """Modules draw from this state inside the `with` block; their draws are counted from zero. `advance` increments
        the counter.
        """
        self._draws.clear()
        token = _active.set(self)
        try:
            yield self
        finally:
            _active.reset(token)

    def advance(self) -> None:
        """Increment the counter (call this inside the traced step, after all draws)."""
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
        """Key and counter of the next draw at `path`, for a function that draws by itself."""
        counter: Tensor = self.counter
        if shard_count() > 1:
            counter = wrapped(random_counter(counter.node), counter)
        return self._key(path), counter

    def _key(self, path: str) -> np.ndarray | Tensor:
        draw = self._draws.get(path, 0)
        self._draws[path] = draw + 1
        key: np.ndarray | Tensor = random.key_for(self.seed, path, draw)
        for number in steps():  # another key at each step of a scan
            key = random.bits(key, functions.stack([number, functions.asarray(_FOLDED, dtype=int32)]), (2,))
        return key


def active() -> RandomState:
    """The random state of the step being computed.

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

"""What follows from a step's results: done at once, or, on an asynchronous device, after the next step was submitted.

So nothing waits for the step under way: rows of metrics, logs, guards and checkpoints are one step late there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from trainer.engine import State
from trainer.engine.targets import DONE, Fence

Read = Callable[[State], np.ndarray]
"""Gives the value of a state: now, or when a `Snapshot` was made."""


class Late:
    """Actions that need the last run to have ended, in order.

    Order of calls: submitted(fence of a run) → add(action), … → submitted(fence of the next run) → …
    """

    def __init__(self) -> None:
        self._fence: Fence = DONE
        self._waiting: deque[Callable[[], None]] = deque()

    def submitted(self, fence: Fence) -> None:
        """A run was submitted; do what waits for the one before."""
        self.settle()
        self._fence = fence

    def add(self, action: Callable[[], None]) -> None:
        """Do `action` once the last run has ended and the actions before are done: now, if that is so."""
        if self._waiting or not self._fence.is_ready:
            self._waiting.append(action)
        else:
            action()

    def settle(self) -> None:
        """Do all that waits. Raises what the last run failed of, or an action."""
        while self._waiting:
            self._waiting.popleft()()

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


class Snapshot:
    """The values that states have at one moment, to be read later."""

    def __init__(self, states: Iterable[State]) -> None:
        self._copies = {state: state.snapshot() for state in states}

    def __call__(self, state: State) -> np.ndarray:
        return self._copies[state].numpy()

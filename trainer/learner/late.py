"""What follows from a step's results: done at once, or, on an asynchronous device, after the next step was submitted.

So nothing waits for the step under way: rows of metrics, logs, guards and checkpoints are one step late there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from trainer.engine import State
from trainer.engine.targets import DONE, Fence
from trainer.learner.verdict import Verdict

Read = Callable[[State], np.ndarray]
"""Gives the value of a state: now, or when a `Snapshot` was made."""


class Late:
    """Actions that need the last run to have ended, in order, until one of them gives a verdict.

    Order of calls: submitted(fence of a run) → add(action), … → submitted(fence of the next run) → …

    Attributes:
        verdict: the first that an action gave; nothing more is done until `clear`.
    """

    def __init__(self) -> None:
        self._fence: Fence = DONE
        self._waiting: deque[Callable[[], Verdict | None]] = deque()
        self.verdict: Verdict | None = None

    def submitted(self, fence: Fence) -> None:
        """A run was submitted; do what waits for the one before."""
        if self.settle() is None:
            self._fence = fence

    def add(self, action: Callable[[], Verdict | None]) -> Verdict | None:
        """Do `action` once the last run has ended and the actions before are done: now, if that is so. The verdict."""
        if self._waiting or self.verdict is not None or not self._fence.is_ready:
            self._waiting.append(action)
        else:
            self.verdict = action()
        return self.verdict

    def settle(self) -> Verdict | None:
        """Do all that waits; the verdict. Raises what the last run failed of, or an action."""
        while self._waiting and self.verdict is None:
            self.verdict = self._waiting.popleft()()
        return self.verdict

    def clear(self) -> None:
        """Forget what waits, and the verdict."""
        self._waiting.clear()
        self.verdict = None


class Snapshot:
    """The values that states have at one moment, to be read later."""

    def __init__(self, states: Iterable[State]) -> None:
        self._copies = {state: state.snapshot() for state in states}

    def __call__(self, state: State) -> np.ndarray:
        return self._copies[state].numpy()

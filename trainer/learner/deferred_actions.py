"""Runs actions that need a step's results: immediately, or, on an asynchronous device, after the next step is
submitted.

On such a device nothing waits for the current step: rows of metrics, logs, guards and checkpoints are one step late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from trainer.engine import State
from trainer.engine.targets import DONE, Fence
from trainer.learner.verdict import Verdict

Read = Callable[[State], np.ndarray]
"""Returns the value of a state: the current one, or that of a `Snapshot`."""


class DeferredActions:
    """Actions that need the end of the last step, in order, until one of them returns a verdict.

    Order of calls: submitted(fence of a run) → add(action), … → submitted(fence of the next run) → …

    Attributes:
        verdict: the first verdict that an action returned; no further action runs until `clear`.
    """

    def __init__(self) -> None:
        self._fence: Fence = DONE
        self._waiting: deque[Callable[[], Verdict | None]] = deque()
        self.verdict: Verdict | None = None

    def submitted(self, fence: Fence) -> None:
        """Runs the actions that wait for the previous step; `fence` is that of the step just submitted."""
        if self.settle() is None:
            self._fence = fence

    def add(self, action: Callable[[], Verdict | None]) -> Verdict | None:
        """Runs `action` once the last step has ended and earlier actions are done, now if possible; returns the
        verdict.
        """
        if self._waiting or self.verdict is not None or not self._fence.is_ready:
            self._waiting.append(action)
        else:
            self.verdict = action()
        return self.verdict

    def settle(self) -> Verdict | None:
        """Runs all waiting actions; returns the verdict. Raises the exception of the last step or of an action."""
        while self._waiting and self.verdict is None:
            self.verdict = self._waiting.popleft()()
        return self.verdict

    def clear(self) -> None:
        """Discards waiting actions and the verdict."""
        self._waiting.clear()
        self.verdict = None


class Snapshot:
    """The values of states at one moment, to be read later."""

    def __init__(self, states: Iterable[State]) -> None:
        self._copies = {state: state.snapshot() for state in states}

    def __call__(self, state: State) -> np.ndarray:
        return self._copies[state].numpy()

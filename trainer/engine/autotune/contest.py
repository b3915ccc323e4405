"""Candidates against each other in real steps: all give the same bits, so a step may run with any of them.

One contest decides one kernel. Each step tells it how long the kernel took; it answers with the parameters for the
next. The incumbent is measured anew between challengers, so that a machine that slows down does not decide. The least
of a few times counts: what disturbs a step only ever lengthens it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

RUNS = 3
"""Steps that each is measured over."""

BETTER = 0.985
"""A challenger must take less than this share of the incumbent's time."""

HOPELESS = 1.25
"""A challenger that first takes this many times as long is not measured again."""


class Contest:
    """Who computes one kernel: `current` now, and `took` says what follows."""

    def __init__(self, default: Any, challengers: list[Any]) -> None:
        self.default = self.best = self.current = default
        self.default_time = float("inf")
        self._challengers = deque(challengers)
        self._times: deque[float] = deque(maxlen=RUNS)
        self._trial: list[float] = []

    @property
    def is_decided(self) -> bool:
        """Whether nothing is left to try."""
        return self.current == self.best and not self._challengers and len(self._times) >= RUNS

    @property
    def left(self) -> list[Any]:
        """Who would have to beat the default elsewhere: the best so far, and challengers not measured to the end."""
        known = dict.fromkeys([self.best, self.current, *self._challengers])
        return [each for each in known if each != self.default]

    @property
    def best_time(self) -> float:
        """The least time that the best was lately seen to take."""
        return min(self._times, default=float("inf"))

    @property
    def gained_time(self) -> float:
        """The time to tell of: no other than the default's where that stays."""
        return self.default_time if self.best == self.default else self.best_time

    def took(self, time: float) -> Any:
        """The step that has just ended took so long; returns the parameters for the next."""
        if self.current == self.default:
            self.default_time = min(self.default_time, time)
        if self.current == self.best:
            self._times.append(time)
            if self._challengers and len(self._times) >= RUNS:
                self.current = self._challengers.popleft()
                self._trial = []
            return self.current
        self._trial.append(time)
        if self._trial[0] > HOPELESS * self.best_time:
            self._return()
        elif len(self._trial) == RUNS:
            if min(self._trial) < BETTER * self.best_time:
                self.best = self.current
                self._times = deque(self._trial, RUNS)
            else:
                self._return()
        return self.current

    def _return(self) -> None:
        """Back to the incumbent, of which one more step is wanted before the next challenger."""
        self.current = self.best
        self._times.popleft()

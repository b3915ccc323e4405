"""Compares candidates in real steps: all give the same bits, so a step may use any of them.

One contest decides one kernel. After each step it receives the kernel's time, and returns the parameters for the next
step. The incumbent is measured again between challengers, so that a slowdown of the machine does not decide. The
minimum of a few times is compared, because disturbances only lengthen a step.
"""

from __future__ import annotations

from collections import deque
from typing import Any

RUNS = 3
"""Number of steps in which each candidate is measured."""

BETTER = 0.985
"""A challenger must take less than this share of the incumbent's time."""

HOPELESS = 1.25
"""A challenger whose first time exceeds the incumbent's by this factor is not measured again."""


class Contest:
    """Chooses the parameters of one kernel: this step uses `current`; `took` returns those of the next step."""

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
        """Candidates to compare with the default in another program: the best so far, and challengers not yet fully
        measured.
        """
        known = dict.fromkeys([self.best, self.current, *self._challengers])
        return [each for each in known if each != self.default]

    @property
    def best_time(self) -> float:
        """The minimum of the best candidate's recent times."""
        return min(self._times, default=float("inf"))

    @property
    def gained_time(self) -> float:
        """The time to report: the default's if the default stays."""
        return self.default_time if self.best == self.default else self.best_time

    def took(self, time: float) -> Any:
        """Records the kernel's time in the step that has just ended; returns the parameters for the next step."""
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
        """Switches back to the incumbent, which is measured in one more step before the next challenger."""
        self.current = self.best
        self._times.popleft()

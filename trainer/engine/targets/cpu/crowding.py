"""Whether a program runs faster alone: on two cores of which a busy process takes one, waiting costs more than help
brings.

Two threads that meet at barriers are as slow as the slower of them, and a thread that shares its core with a busy
process stands still for whole time slices. So when a program takes much longer than it did, it is tried on the calling
thread alone, and stays there for a while if that is faster. Its results are the same either way.
"""

from __future__ import annotations

import statistics

SLOWER = 1.6
"""How much longer than at its best a program must take before running alone is tried."""

PROBE, TRIAL, STAY, STAY_SECONDS = 4, 3, 64, 1.0
"""Launches to judge a program by, to try alone, and for which a decision holds, a second at most."""

FORGETTING = 1.0005
"""By how much the best time is let go each launch: what a program did long ago may be out of reach."""


class Crowding:
    """The choice for one program; tell it how long each launch took, ask it about the next."""

    def __init__(self) -> None:
        self.alone = False
        self._best = float("inf")
        self._together: list[float] = []
        self._trial: list[float] = []
        self._stay = 0
        self._left = 0.0

    def took(self, seconds: float) -> None:
        """The launch that has just ended took so long."""
        if self._stay:
            self._left -= seconds
            self._stay = self._stay - 1 if self._left > 0 else 0
            self.alone = self.alone and self._stay > 0
            return
        if self.alone:
            self._judge_alone(seconds)
        else:
            self._judge_together(seconds)

    def _judge_together(self, seconds: float) -> None:
        self._best = min(self._best * FORGETTING, seconds)
        self._together.append(seconds)
        if len(self._together) == PROBE:
            if statistics.median(self._together) > SLOWER * self._best:
                self.alone = True
            else:
                self._together.clear()

    def _judge_alone(self, seconds: float) -> None:
        self._trial.append(seconds)
        if len(self._trial) == TRIAL:
            self.alone = statistics.median(self._trial) < statistics.median(self._together)
            self._stay, self._left = STAY, STAY_SECONDS
            self._together.clear()
            self._trial.clear()

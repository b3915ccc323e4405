"""Decides whether a program runs on one thread: if a busy process takes one of two cores, waiting costs more than a
second thread saves.

Two threads that meet at barriers are as slow as the slower one, and a thread that shares its core with a busy process
pauses for whole time slices. So when a program takes much longer than before, it is tried on the calling thread only,
and stays there for a while if that is faster. Its results are the same in both cases.
"""

from __future__ import annotations

import statistics

SLOWER = 1.6
"""Factor over its best time that a program must take before a single thread is tried."""

PROBE, TRIAL, STAY, STAY_SECONDS = 4, 3, 64, 1.0
"""Runs to judge a program by, runs to try on one thread, and runs for which a decision holds, for at most a second."""

FORGETTING = 1.0005
"""Growth of the best time per run, since an old best time may not be possible any more."""


class SingleThreadChoice:
    """The choice for one program: receives the time of each run, decides about the next one."""

    def __init__(self) -> None:
        self.alone = False
        self._best = float("inf")
        self._together: list[float] = []
        self._trial: list[float] = []
        self._stay = 0
        self._left = 0.0

    def took(self, seconds: float) -> None:
        """Record the duration of the run that has just ended."""
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

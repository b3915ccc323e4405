"""Decides on how many threads a program runs: if busy processes take some of the cores, waiting for the threads that
share them costs more than these threads save.

Threads that meet at barriers are as slow as the slowest one, and a thread that shares its core with a busy process
pauses for whole time slices. So when a program takes much longer than before, fewer threads are tried, and it stays
with the fastest number for a while. Its results are the same with any number.
"""

from __future__ import annotations

import statistics

SLOWER = 1.6
"""Factor over its best time that a program must take before fewer threads are tried."""

PROBE, TRIAL, STAY, STAY_SECONDS = 4, 3, 64, 1.0
"""Runs to judge a program by, runs to try a number of threads, and runs for which a decision holds, for at most a
second.
"""

FORGETTING = 1.0005
"""Growth of the best time per run, since an old best time may not be possible any more."""


class ThreadChoice:
    """The choice for one program on a pool of `most` threads: receives the time of each run, decides about the next.

    It tries one thread fewer, two, four and so on, because the number of busy cores is not known.
    """

    def __init__(self, most: int) -> None:
        self.threads = self._most = most
        self._fewer = [most - (1 << power) for power in range(most.bit_length()) if most > 1 << power]
        self._best = float("inf")
        self._times: list[float] = []
        self._medians: dict[int, float] = {}
        self._stay = 0
        self._left = 0.0

    def took(self, seconds: float) -> None:
        """Record the duration of the run that has just ended."""
        if self._stay:
            self._left -= seconds
            self._stay = self._stay - 1 if self._left > 0 else 0
            if not self._stay:
                self.threads = self._most
            return
        self._times.append(seconds)
        if self._medians:
            self._try()
        else:
            self._judge(seconds)

    def _judge(self, seconds: float) -> None:
        self._best = min(self._best * FORGETTING, seconds)
        if len(self._times) == PROBE:
            median = statistics.median(self._times)
            self._times.clear()
            if median > SLOWER * self._best:
                self._medians[self._most] = median
                self.threads = self._fewer[0]

    def _try(self) -> None:
        if len(self._times) < TRIAL:
            return
        self._medians[self.threads] = statistics.median(self._times)
        self._times.clear()
        if len(self._medians) <= len(self._fewer):
            self.threads = self._fewer[len(self._medians) - 1]
            return
        self.threads = min(self._medians, key=self._medians.__getitem__)
        self._stay, self._left = STAY, STAY_SECONDS
        self._medians.clear()

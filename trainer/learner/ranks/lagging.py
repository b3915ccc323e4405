"""Finds a rank whose steps take longer than those of the others over several periods."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from trainer.learner.ranks.pace import RECENT_STEPS

LAG_FACTOR = 1.5
"""A rank lags if its step time is at least this multiple of the others' median, …"""

LAG_PERIODS = 3
"""… in this number of consecutive periods of RECENT_STEPS steps: a busy minute is not a lag."""


class Lagging:
    """Compares the ranks once every RECENT_STEPS steps; each lagging rank is reported once."""

    def __init__(self) -> None:
        self._compared, self._periods, self._named = 0, dict[int, int](), set[int]()

    def found(self, step_ms: Mapping[int, float], measured: int) -> list[tuple[int, float]]:
        """The ranks newly found to lag, each with the median step time of the others.

        Args:
            step_ms: median time of the recent steps of each rank, without waits for others, in milliseconds.
            measured: number of steps that all ranks have measured so far.
        """
        if measured < self._compared + RECENT_STEPS:
            return []
        self._compared = measured
        found = []
        for rank, own in step_ms.items():
            others = statistics.median(other for each, other in step_ms.items() if each != rank)
            self._periods[rank] = self._periods.get(rank, 0) + 1 if own >= LAG_FACTOR * others else 0
            if self._periods[rank] == LAG_PERIODS and rank not in self._named:
                self._named.add(rank)
                found.append((rank, others))
        return found

"""Finds a rank whose steps take longer than those of the others, for long."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from trainer.learner.ranks.pace import RECENT_STEPS

LAG_FACTOR = 1.5
"""A rank lags if its steps take this many times those of the others."""

LAG_PERIODS = 3
"""… in this many periods of RECENT_STEPS steps, one after the other: a busy minute is no lag."""


class Lagging:
    """Compares the ranks once every RECENT_STEPS steps; each rank is named once."""

    def __init__(self) -> None:
        self._compared, self._periods, self._named = 0, dict[int, int](), set[int]()

    def found(self, step_ms: Mapping[int, float], measured: int) -> list[tuple[int, float]]:
        """The ranks that are found to lag now, each with the median of the others.

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

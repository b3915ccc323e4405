"""Examples per second, measured on the host."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Throughput:
    """Examples between two readings: `count(n)` after each step, `take()` for the rate since the last `take()`."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._started = clock()
        self._examples = 0

    def count(self, examples: int) -> None:
        """Add `examples` that have been worked through."""
        self._examples += examples

    def take(self) -> float:
        """Examples per second since the last reading (nan where no time has passed); starts the next period."""
        now = self._clock()
        seconds, examples = now - self._started, self._examples
        self._started, self._examples = now, 0
        return examples / seconds if seconds > 0 else math.nan

"""Measures the time of a step, in any environment."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def step_ms(run: Callable[[], object], steps: int) -> float:
    """Returns the milliseconds of a step: the median of several."""
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)

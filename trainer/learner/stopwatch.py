"""Measures the time of training steps: items per second, milliseconds per step, and the fraction spent waiting for
data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """Values over the steps since the last reading: a rate, milliseconds, a fraction of time (0 to 1), seconds."""

    samples_per_second: float
    step_ms: float
    data_wait: float
    seconds: float


class Stopwatch:
    """Runs inside `running`, stops inside `paused` (validation, checkpoints, compilation, a pause)."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since: float | None = None
        self._seconds = self._waited_before = 0.0
        self._samples = self._steps = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measures the time inside."""
        self._since = self._clock()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Excludes the time inside; may be nested."""
        was_running = self._since is not None
        self._stop()
        try:
            yield
        finally:
            if was_running:
                self._since = self._clock()

    def count(self, samples: int) -> None:
        """Counts a step with this many items; only while running."""
        if self._since is None:
            return
        self._samples += samples
        self._steps += 1

    def take(self, data_wait: float) -> Reading | None:
        """The values since the last reading (None without steps); starts a new period.

        `data_wait` is the total number of seconds that steps have waited for data so far.
        """
        is_running = self._since is not None
        self._stop()
        seconds, samples, steps, waited = self._seconds, self._samples, self._steps, data_wait - self._waited_before
        self._seconds, self._samples, self._steps, self._waited_before = 0.0, 0, 0, data_wait
        if is_running:
            self._since = self._clock()
        if not steps or seconds <= 0:
            return None
        return Reading(samples / seconds, 1e3 * seconds / steps, min(1.0, max(0.0, waited / seconds)), seconds)

    def _stop(self) -> None:
        if self._since is not None:
            self._seconds += self._clock() - self._since
            self._since = None

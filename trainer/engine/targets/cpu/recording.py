"""Recorded runs of programs: time stamps for each launch and thread, and the conversion of ticks to seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from trainer.engine.targets.cpu.pool import STAMPS, Pool

CALIBRATION_SECONDS = 0.02
"""Minimum calibration time: over less, the microsecond that reading both clocks takes would distort the result."""

READINGS = 8
"""Number of readings of both clocks, so that at least one is not interrupted."""

NO_STAMPS = np.zeros((0, 0, STAMPS), np.int64)


def room(threads: int, launches: int) -> np.ndarray:
    """Returns memory for the stamps of one run."""
    return np.zeros((threads, launches + 1, STAMPS), np.int64)


def skipped(stamps: np.ndarray, launches: int) -> np.ndarray:
    """Returns the stamps of a run that skipped its first `launches` launches, with zero time for them."""
    none = np.broadcast_to(stamps[:, :1, :1], (len(stamps), launches, STAMPS))
    return np.concatenate([none, stamps], axis=1)


class Recorded(Protocol):
    """The interface of a program for its runs."""

    @property
    def waits(self) -> np.ndarray:
        """For each launch, whether all threads meet before it."""


AnyProgram = TypeVar("AnyProgram", bound=Recorded)


@dataclass(frozen=True, slots=True)
class ProgramRun(Generic[AnyProgram]):
    """A run of a program: `stamps` as in `Pool.run` or NO_STAMPS, `begun` on `time.perf_counter`, and `seconds`."""

    program: AnyProgram
    stamps: np.ndarray
    begun: float
    seconds: float

    def launch_work(self) -> np.ndarray:
        """Returns the seconds of each launch alone: the mean over the threads of the working time and, if the next
        launch waits for all threads, of the waiting time for slower threads.

        Without a barrier, launches overlap. The delay of a thread by the previous launch is not counted, so that the
        time of a kernel does not depend on concurrent kernels.
        """
        began, ended = self.stamps[:, :-1, 1], self.stamps[:, :-1, 2]
        waited = np.maximum(0, ended.max(axis=0) - np.maximum(ended, began.max(axis=0)))
        ticks = (ended - began + waited * np.append(self.program.waits[1:], True)).mean(axis=0)
        whole = int(self.stamps[0, -1, 1] - self.stamps[0, 0, 1])
        return ticks * (self.seconds / max(1, whole))


@dataclass
class Recording:
    """The runs of all programs of a device since the recording began."""

    pool: Pool
    runs: list[ProgramRun[Any]] = field(default_factory=list)
    now: Callable[[], float] = time.perf_counter
    _began: tuple[float, int] = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._both_clocks()

    def _both_clocks(self) -> tuple[float, int]:
        return read_together(self.now, self.pool.ticks)

    def clock(self) -> Clock:
        """Returns the conversion of ticks to seconds, calibrated from the beginning of the recording until now."""
        now, ticks = self._both_clocks()
        while now - self._began[0] < CALIBRATION_SECONDS:
            now, ticks = self._both_clocks()
        return Clock(self._began[0], self._began[1], (now - self._began[0]) / (ticks - self._began[1]))


def read_together(seconds: Callable[[], float], ticks: Callable[[], int]) -> tuple[float, int]:
    """Returns the same moment on both clocks.

    If a thread is interrupted between two readings, the clocks differ by that time (a millisecond and more on a busy
    machine), so the fastest of several readings is used.
    """
    found = []
    for _ in range(READINGS):
        before, counted, after = seconds(), ticks(), seconds()
        found.append((after - before, (before + after) / 2, counted))
    _, moment, counted = min(found)
    return moment, counted


@dataclass(frozen=True, slots=True)
class Clock:
    """Converts ticks to seconds on `time.perf_counter`."""

    begun: float
    ticks: int
    seconds_per_tick: float

    def seconds(self, ticks: np.ndarray) -> np.ndarray:
        """Returns the times in seconds."""
        return self.begun + (ticks - self.ticks) * self.seconds_per_tick

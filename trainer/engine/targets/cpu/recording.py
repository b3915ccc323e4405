"""What was run while a device recorded: a stamp for every launch and thread, and how ticks become seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from trainer.engine.targets.cpu.pool import STAMPS, Pool

CALIBRATION_SECONDS = 0.02
"""Over less than this, the microsecond that reading both clocks takes would show in the seconds of a tick."""

READINGS = 8
"""How often both clocks are read to have one reading that nothing came between."""

NO_STAMPS = np.zeros((0, 0, STAMPS), np.int64)


def room(threads: int, launches: int) -> np.ndarray:
    """Memory for the stamps of one run."""
    return np.zeros((threads, launches + 1, STAMPS), np.int64)


def skipped(stamps: np.ndarray, launches: int) -> np.ndarray:
    """The stamps of a run that left out so many launches at its beginning: they took no time then."""
    none = np.broadcast_to(stamps[:, :1, :1], (len(stamps), launches, STAMPS))
    return np.concatenate([none, stamps], axis=1)


class Recorded(Protocol):
    """The interface of a program for its runs."""

    @property
    def waits(self) -> np.ndarray:
        """For each launch whether all threads meet before it."""


AnyProgram = TypeVar("AnyProgram", bound=Recorded)


@dataclass(frozen=True, slots=True)
class ProgramRun(Generic[AnyProgram]):
    """A run of a program: `stamps` as in `Pool.run` or NO_STAMPS, `begun` on `time.perf_counter`, and `seconds`."""

    program: AnyProgram
    stamps: np.ndarray
    begun: float
    seconds: float

    def launch_work(self) -> np.ndarray:
        """Seconds of each launch by itself: the mean over the threads of their working time and, if the next launch
        waits for all threads, of their waiting time for slower threads.

        Without a barrier, launches overlap: the delay of a thread by the previous launch is not counted, so that the
        time of a kernel does not depend on concurrent kernels.
        """
        began, ended = self.stamps[:, :-1, 1], self.stamps[:, :-1, 2]
        waited = np.maximum(0, ended.max(axis=0) - np.maximum(ended, began.max(axis=0)))
        ticks = (ended - began + waited * np.append(self.program.waits[1:], True)).mean(axis=0)
        whole = int(self.stamps[0, -1, 1] - self.stamps[0, 0, 1])
        return ticks * (self.seconds / max(1, whole))


@dataclass
class Recording:
    """The runs of all programs of a device from `start` on."""

    pool: Pool
    runs: list[ProgramRun[Any]] = field(default_factory=list)
    now: Callable[[], float] = time.perf_counter
    _began: tuple[float, int] = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._both_clocks()

    def _both_clocks(self) -> tuple[float, int]:
        return read_together(self.now, self.pool.ticks)

    def clock(self) -> Clock:
        """How ticks become seconds, from the beginning of the recording to now."""
        now, ticks = self._both_clocks()
        while now - self._began[0] < CALIBRATION_SECONDS:
            now, ticks = self._both_clocks()
        return Clock(self._began[0], self._began[1], (now - self._began[0]) / (ticks - self._began[1]))


def read_together(seconds: Callable[[], float], ticks: Callable[[], int]) -> tuple[float, int]:
    """The same moment on both clocks.

    A thread that is held up between two readings would see the clocks apart by that (a millisecond and more on a busy
    machine), so the reading that took least of several counts.
    """
    found = []
    for _ in range(READINGS):
        before, counted, after = seconds(), ticks(), seconds()
        found.append((after - before, (before + after) / 2, counted))
    _, moment, counted = min(found)
    return moment, counted


@dataclass(frozen=True, slots=True)
class Clock:
    """Ticks as seconds on `time.perf_counter`."""

    begun: float
    ticks: int
    seconds_per_tick: float

    def seconds(self, ticks: np.ndarray) -> np.ndarray:
        """Moments in seconds."""
        return self.begun + (ticks - self.ticks) * self.seconds_per_tick

"""One profiled call: the times at which each thread worked on each launch, and the launch that caused each wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cpu.recording import Clock, ProgramRun


@dataclass(frozen=True)
class Span:
    """One run of a program in seconds: `arrived`, `began` and `ended` are [threads][launches], on one clock.

    `waits`: whether a launch waits at a barrier for all earlier ones. `through`: the time at which each thread
    finished.
    """

    labels: tuple[str, ...]
    waits: tuple[bool, ...]
    begun: float
    finished: float
    arrived: np.ndarray
    began: np.ndarray
    ended: np.ndarray
    through: np.ndarray

    @property
    def busy(self) -> np.ndarray:
        """Seconds of work [threads][launches]."""
        return self.ended - self.began

    @property
    def waking(self) -> float:
        """Seconds before threads start to work, the mean over threads."""
        first = self.arrived[:, 0] if self.labels else self.through
        return float(np.mean(first - self.begun))

    def waiting(self) -> np.ndarray:
        """Seconds of waiting [launches] that each launch caused, the mean over threads.

        A thread waits because others had more work since the previous barrier. Its wait is distributed over the
        launches between the two barriers, in proportion to the work that the busiest thread did more than it in each.
        """
        threads, launches = self.busy.shape
        caused = np.zeros(launches)
        starts = [index for index, waits in enumerate(self.waits) if waits or not index]
        ends = [*starts[1:], launches]
        for start, end in zip(starts, ends, strict=True):
            busy = self.busy[:, start:end]
            waited = (self.finished - self.through) if end == launches else (self.began - self.arrived)[:, end]
            less = busy.max(axis=0) - busy
            total = less.sum(axis=1)
            alone = np.zeros(end - start)
            alone[-1] = 1.0
            for thread in range(threads):
                share = less[thread] / total[thread] if total[thread] > 0 else alone
                caused[start:end] += max(0.0, float(waited[thread])) * share / threads
        return caused


@dataclass(frozen=True)
class Timeline:
    """One profiled call, from `begun` to `finished` seconds, and the programs that ran in it."""

    begun: float
    finished: float
    spans: tuple[Span, ...]


def span_of(run: ProgramRun[Program], waits: tuple[bool, ...], clock: Clock) -> Span:
    """Converts a recorded run to seconds."""
    moments = clock.seconds(run.stamps)
    launches = len(run.program.launches)
    finished = min(
        float(moments[0, launches, 1]), run.begun + run.seconds
    )  # inside its call, even if the clocks differ
    labels = tuple(launch.label for launch in run.program.launches)
    arrived, began, ended = (moments[:, :launches, which] for which in range(3))
    return Span(labels, waits, run.begun, finished, arrived, began, ended, moments[:, launches, 0])

"""Simulates a step in the thread pool on any number of threads, from the times of its tasks on one thread.

Each thread that is free claims the next task of a launch. A launch that waits starts with a barrier of all threads; a
launch of one task runs on the calling thread. Assumptions beyond the measured costs of two threads:

- the time of a barrier is proportional to the number of threads, which take turns at its counter;
- claims also take turns, each as long as between two threads;
- a launch's memory traffic slows down when threads share the bandwidth, which grows in proportion to their number up to
  a limit; bytes that one thread had no time to move came from caches and are ignored;
- cores neither slow each other down nor lose speed when more of them work.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """A launch, measured on one thread.

    Args:
        name: name in the report.
        tasks: seconds of each task.
        waits: whether a barrier of all threads precedes it.
        nbytes: bytes that it reads and writes, each counted once.
        meetings: number of barriers inside it, as in a repeat.
    """

    name: str
    tasks: tuple[float, ...]
    waits: bool
    nbytes: float = 0.0
    meetings: int = 0

    @property
    def seconds(self) -> float:
        """Seconds on one thread."""
        return sum(self.tasks)


@dataclass(frozen=True)
class Costs:
    """Costs of threads in seconds, and bandwidths in bytes per second.

    Args:
        barrier: time of a barrier of two threads.
        claim: time to claim a task while another thread claims one.
        waking: time from the call of a step until another thread works.
        alone, together: bandwidth of one thread, and of two.
        limit: maximum bandwidth of any number of threads.
    """

    barrier: float
    claim: float
    waking: float
    alone: float
    together: float
    limit: float = math.inf

    def meeting(self, threads: int) -> float:
        """Seconds of a barrier."""
        return self.barrier * threads / 2 if threads > 1 else 0.0

    def bandwidth(self, threads: int) -> float:
        """Bytes per second of `threads` threads together."""
        return self.alone if threads == 1 else min(max(self.limit, self.together), self.together * threads / 2)


@dataclass(frozen=True)
class Prediction:
    """Seconds of a program, and the seconds by which each launch delayed its end."""

    seconds: float
    launches: tuple[float, ...]


def predicted(launches: Sequence[Launch], threads: int, costs: Costs) -> Prediction:
    """Predicts the time of a program on `threads` threads, by simulation."""
    clocks = [0.0] + [costs.waking] * (threads - 1)
    ends, end = [], 0.0
    for launch in launches:
        if launch.waits and threads > 1:
            clocks = [max(clocks) + costs.meeting(threads)] * threads
        if len(launch.tasks) == 1 or threads == 1:
            clocks[0] += launch.seconds
        else:
            clocks = _claimed(launch, clocks, costs)
        clocks = [clock + launch.meetings * costs.meeting(threads) for clock in clocks]
        ends.append(max(end, *clocks) - end)
        end += ends[-1]
    return Prediction(max(clocks) + costs.meeting(threads), tuple(ends))


def _claimed(launch: Launch, clocks: Sequence[float], costs: Costs) -> list[float]:
    """Returns when each thread finishes a launch that it may begin at `clocks`."""
    slower, free = slowdown(launch, len(clocks), costs), 0.0
    waiting = [(clock, thread) for thread, clock in enumerate(clocks)]
    heapq.heapify(waiting)
    for task in launch.tasks:
        begin, thread = heapq.heappop(waiting)
        free = max(begin, free) + costs.claim
        heapq.heappush(waiting, (free + task * slower, thread))
    through = list(clocks)
    for clock, thread in sorted(waiting):  # each thread finds no task left
        free = through[thread] = max(clock, free) + costs.claim
    return through


def slowdown(launch: Launch, threads: int, costs: Costs) -> float:
    """Returns the factor by which tasks take longer while other threads move bytes, too."""
    sharing = min(threads, len(launch.tasks))
    if not launch.seconds:
        return 1.0
    nbytes = min(launch.nbytes, launch.seconds * costs.alone)
    return 1.0 + nbytes * max(0.0, sharing / costs.bandwidth(sharing) - 1 / costs.alone) / launch.seconds

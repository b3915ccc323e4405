"""A step on any number of threads, simulated from the times of its tasks on one: what the thread pool's runtime does.

Threads claim the tasks of a launch one after another, each as soon as it is free; where launches wait, all meet at a
barrier; a launch of one task runs on the calling thread. What is assumed beyond the measured costs of two threads:

- a barrier takes longer in proportion to the threads, which take turns at its counter;
- claims take turns too, each as long as between two threads;
- a launch's bytes take longer by what threads that share the bandwidth lose of it, which grows in proportion to them up
  to a limit; bytes that one thread had no time to move came from caches, and are left out;
- cores neither slow each other down nor lose speed as more of them work.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """A launch as one thread ran it.

    Args:
        name: of the report.
        tasks: seconds of each task.
        waits: whether all threads meet before it.
        nbytes: bytes that it reads and writes, each counted once.
        meetings: barriers inside it, as a repeat has.
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
    """What threads cost: seconds, and bytes a second.

    Args:
        barrier: two threads meet.
        claim: a thread claims a task while another does.
        waking: from the call of a step until another thread works.
        alone, together: bytes a second that one thread moves, and two.
        limit: bytes a second that any number of threads moves at most.
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
        """Bytes a second."""
        return self.alone if threads == 1 else min(max(self.limit, self.together), self.together * threads / 2)


@dataclass(frozen=True)
class Prediction:
    """Seconds of a program, and by how much each launch moved its end."""

    seconds: float
    launches: tuple[float, ...]


def predicted(launches: Sequence[Launch], threads: int, costs: Costs) -> Prediction:
    """The time of a program on `threads` threads, by simulation."""
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
    """When each thread is through with a launch that it may begin at `clocks`."""
    slower, free = slowdown(launch, len(clocks), costs), 0.0
    waiting = [(clock, thread) for thread, clock in enumerate(clocks)]
    heapq.heapify(waiting)
    for task in launch.tasks:
        begin, thread = heapq.heappop(waiting)
        free = max(begin, free) + costs.claim
        heapq.heappush(waiting, (free + task * slower, thread))
    through = list(clocks)
    for clock, thread in sorted(waiting):  # each finds that nothing is left
        free = through[thread] = max(clock, free) + costs.claim
    return through


def slowdown(launch: Launch, threads: int, costs: Costs) -> float:
    """By how much longer tasks take while others move bytes too."""
    sharing = min(threads, len(launch.tasks))
    if not launch.seconds:
        return 1.0
    nbytes = min(launch.nbytes, launch.seconds * costs.alone)
    return 1.0 + nbytes * max(0.0, sharing / costs.bandwidth(sharing) - 1 / costs.alone) / launch.seconds

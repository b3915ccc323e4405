"""A rank of a ResNet-50 step in shards: where its time goes without an exchange, what sums cost, and the real step.

Usage: mpiexec -n N python benchmarks/workloads/clustered.py [--images N] [--pixels N] [--rounds N]

Rank 0 prints one JSON object:

    marks      what happens in a step, in order: ["begin", number, bytes of each value] of an exchange, and
               ["finish", number] before something reads its sums
    seconds    [sample, mark + 1]: of each rank and round, seconds of computing before each mark and after the last,
               measured without an exchange in all ranks at once
    share      of a processor that ranks had while they computed: below 1 where others ran, too
    steps      seconds of the same step with its exchange, of each round
    sums       [bytes, median seconds, seconds of the fastest tenth]: of a sum of one array; with two ranks only
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from resnet_step import resnet_step

from trainer.learner.ranks import Group

WARM_STEPS = 2
SIZES = [1 << shift for shift in range(6, 27, 2)]
"""Bytes of the sums that are measured: up to 64 MB."""


class Metered(Group):
    """A group that, while `is_metering`, notes when a step begins and needs an exchange, and exchanges nothing."""

    def __init__(self, communicator: Any) -> None:
        super().__init__(communicator)
        self.is_metering = False
        self.marks: list[tuple[Any, ...]] = []
        self.times: list[float] = []

    def begin(self, totals: Sequence[Any]) -> Callable[[], None]:
        if not self.is_metering:
            return super().begin(totals)
        number = len(self.marks)
        self._mark("begin", number, [total.nbytes for total in totals])
        return lambda: self._mark("finish", number)

    def _mark(self, *mark: Any) -> None:
        self.marks.append(mark)
        self.times.append(time.perf_counter())


def metered_step(group: Metered, run: Callable[[], object]) -> tuple[list[float], float]:
    """Seconds of computing before each mark of a step without its exchange, and after the last; the share of a
    processor that this process had.
    """
    group.marks, group.is_metering = [], True
    processor, group.times = time.process_time(), [time.perf_counter()]
    run()
    group.times.append(time.perf_counter())
    group.is_metering = False
    return list(np.diff(group.times)), (time.process_time() - processor) / (group.times[-1] - group.times[0])


def sum_seconds(group: Group, world: Any, nbytes: int) -> tuple[int, float, float]:
    """Bytes, median seconds and those of the fastest tenth of sums of one array over the ranks."""
    array, found = np.ones(nbytes // 4, np.float32), []
    for _ in range(max(8, min(100, (1 << 25) // nbytes))):
        array[:] = 1
        world.Barrier()
        started = time.perf_counter()
        group.add_up([array])
        found.append(time.perf_counter() - started)
    return nbytes, statistics.median(found), sorted(found)[len(found) // 10]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=4, help="of each rank")
    parser.add_argument("--pixels", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    group = Metered(world)
    run = resnet_step(group.size, options.images * group.size, options.pixels, 1, group)
    for _ in range(WARM_STEPS):
        run()
    own, steps = [], []
    for _ in range(options.rounds):  # alternately, so that other work on the machine disturbs both
        world.Barrier()
        own.append(metered_step(group, run))
        world.Barrier()
        started = time.perf_counter()
        run()
        world.Barrier()
        steps.append(time.perf_counter() - started)
    marks = group.marks
    sums = [sum_seconds(group, world, nbytes) for nbytes in SIZES] if group.size == 2 else []
    found = group.joined(own)
    if group.is_first:
        seconds, shares = zip(*found, strict=True)
        share = statistics.mean(shares)
        print(json.dumps({"marks": marks, "seconds": seconds, "share": share, "steps": steps, "sums": sums}))


if __name__ == "__main__":
    main()

"""Times one rank of a sharded ResNet-50 step: the computation without an exchange, the sums, and the complete step.

Usage: mpiexec -n N python benchmarks/workloads/clustered.py [--images N] [--pixels N] [--rounds N]

Rank 0 prints one JSON object:

    marks      events of a step, in order: ["begin", number, bytes of each value] starts an exchange, and
               ["finish", number] comes before its sums are read
    seconds    [sample, mark + 1], a sample per rank and round: seconds of computation before each mark and after the
               last, measured without an exchange, in all ranks at the same time
    share      CPU time of the ranks as a fraction of the computation's time: below 1 if other processes also ran
    steps      seconds of the same step with its exchange, for each round
    sums       [bytes, median seconds, 10th percentile of the seconds] of the sum of one array; only with two ranks
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
"""Bytes of the measured sums: up to 64 MB."""


class Metered(Group):
    """A group that exchanges nothing while `is_metering`: it records when a step begins and needs each exchange."""

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
    """Returns the seconds of computation before each mark of a step without its exchange and after the last, and the
    process's CPU time as a fraction of the step's time.
    """
    group.marks, group.is_metering = [], True
    processor, group.times = time.process_time(), [time.perf_counter()]
    run()
    group.times.append(time.perf_counter())
    group.is_metering = False
    return list(np.diff(group.times)), (time.process_time() - processor) / (group.times[-1] - group.times[0])


def sum_seconds(group: Group, world: Any, nbytes: int) -> tuple[int, float, float]:
    """Returns the bytes, and the median and 10th percentile of the seconds, of sums of one array over the ranks."""
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
    parser.add_argument("--images", type=int, default=4, help="number of images per rank")
    parser.add_argument("--pixels", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    group = Metered(world)
    run = resnet_step(group.size, options.images * group.size, options.pixels, 1, group)
    for _ in range(WARM_STEPS):
        run()
    own, steps = [], []
    for _ in range(options.rounds):  # alternates, so that other load affects both
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

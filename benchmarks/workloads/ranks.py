"""Answers the requests of `scale.py` in several processes: rank 0 reads a line of standard input and prints a number.

Usage: [mpiexec -n N] ranks.py --shards S --threads T --batch N --pixels N

step             milliseconds of a training step of ResNet-50 with batch norm and SGD, on this process's shards
waited           percentage of such a step that rank 0 waits for the others
all_reduce       milliseconds of a sum of 100 MB over the processes
mpi_all_reduce   the same with mpi4py's in-place all-reduce
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from resnet_step import resnet_step

from trainer.learner.ranks import ALONE, Group

REDUCED_BYTES = 100_000_000
REST_SECONDS = 0.005
"""Sleep between two polls for a request; without it, waiting processes would take CPU time from the measured one."""

WARM_UP = 2
OPTIONS = argparse.ArgumentParser()
for name in ("shards", "threads", "batch", "pixels"):
    OPTIONS.add_argument(f"--{name}", type=int, required=True)


def group() -> Group:
    """Returns the group of the processes that mpiexec started, or of this process."""
    from mpi4py import MPI

    return Group(MPI.COMM_WORLD) if MPI.COMM_WORLD.Get_size() > 1 else ALONE


@functools.cache
def warm_step() -> Callable[[], object]:
    """Returns a traced and compiled step."""
    run = resnet_step(CHOSEN.shards, CHOSEN.batch, CHOSEN.pixels, CHOSEN.threads, RANKS)
    for _ in range(WARM_UP):
        run()
    return run


@functools.cache
def array() -> np.ndarray:
    """Returns the array to sum."""
    return np.ones(REDUCED_BYTES // 4, np.float32)


def milliseconds(run: Callable[[], object]) -> float:
    """Returns the milliseconds of one call."""
    started = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - started)


def waited() -> float:
    before = RANKS.waited
    spent = milliseconds(warm_step())
    return 1e5 * (RANKS.waited - before) / spent


def reduced(sum_up: Callable[[np.ndarray], Any]) -> float:
    array()[:] = 1
    return milliseconds(lambda: sum_up(array()))


def mpi_sum(summed: np.ndarray) -> None:
    from mpi4py import MPI

    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, summed)


QUESTIONS: dict[str, Callable[[], float]] = {
    "step": lambda: milliseconds(warm_step()),
    "waited": waited,
    "all_reduce": lambda: reduced(lambda summed: RANKS.add_up([summed])),
    "mpi_all_reduce": lambda: reduced(mpi_sum),
}


STEPS = ("step", "waited")
TAG = 1000
"""MPI tag of messages with requests."""


def questions() -> Iterator[str]:
    """Yields each line of rank 0's standard input in all processes; the other ranks sleep until it arrives."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    while True:
        if RANKS.is_first:
            line = sys.stdin.readline()
            for rank in range(1, RANKS.size):
                world.send(line, dest=rank, tag=TAG)
        else:
            while not world.iprobe(source=0, tag=TAG):
                time.sleep(REST_SECONDS)
            line = world.recv(source=0, tag=TAG)
        if not line:
            return
        yield line.strip()


CHOSEN = OPTIONS.parse_args()
RANKS = group()
for question in questions():
    if question in STEPS:
        warm_step()  # traced and compiled before all processes begin together
    RANKS.to_all(None)
    answer = QUESTIONS[question]()
    if RANKS.is_first:
        print(answer, flush=True)

"""Processes that answer the questions of `scale.py`: rank 0 reads a line of standard input and prints a number.

Usage: [mpiexec -n N] ranks.py --shards S --threads T --batch N --pixels N

step             milliseconds of a training step of ResNet-50 with batch norm and SGD, on this process's shards
waited           the share of such a step, in percent, that rank 0 waits for the others
all_reduce       milliseconds of a sum of 100 MB over the processes
mpi_all_reduce   the same by mpi4py's in-place all-reduce
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.engine.sharding import Shards
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner.ranks import ALONE, Group
from trainer.recipes.parts.resnet import Bottleneck, ResNet

REDUCED_BYTES = 100_000_000
REST_SECONDS = 0.005
"""Between two looks for a question: waiting processes would otherwise take the processors from what is measured."""

WARM_UP = 2
OPTIONS = argparse.ArgumentParser()
for name in ("shards", "threads", "batch", "pixels"):
    OPTIONS.add_argument(f"--{name}", type=int, required=True)


def group() -> Group:
    """The processes that mpiexec has started, or this one."""
    from mpi4py import MPI

    return Group(MPI.COMM_WORLD) if MPI.COMM_WORLD.Get_size() > 1 else ALONE


@functools.cache
def resnet_step() -> Callable[[], object]:
    """A training step of ResNet-50 on this process's part of a batch of random images."""
    parts = None
    if CHOSEN.shards > 1:
        local = CHOSEN.shards // RANKS.size
        parts = Shards(CHOSEN.shards, RANKS.rank * local, local, RANKS if RANKS.size > 1 else None)
    net = ResNet((3, 4, 6, 3), Bottleneck, classes=1000)
    net.set_seed(0, "net")
    net.train()
    parameters = list(net.parameters())
    generator = np.random.default_rng(0)
    rows = slice(None) if parts is None else parts.rows(CHOSEN.batch)
    images = generator.normal(size=(CHOSEN.batch, 3, CHOSEN.pixels, CHOSEN.pixels)).astype(np.float32)[rows]
    labels = generator.integers(0, 1000, CHOSEN.batch)[rows]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.cross_entropy(net(x), y) / CHOSEN.shards
        for parameter, gradient in zip(parameters, engine.gradients(loss, parameters), strict=True):
            parameter.assign(parameter - 0.01 * engine.shard_sum(gradient))
        return engine.shard_sum(loss)

    device, traced = CpuDevice(threads=CHOSEN.threads), engine.trace(step, shards=parts)

    def run() -> object:
        with engine.device(device):
            return traced(images, labels)

    for _ in range(WARM_UP):
        run()
    return run


@functools.cache
def array() -> np.ndarray:
    """What is summed."""
    return np.ones(REDUCED_BYTES // 4, np.float32)


def milliseconds(run: Callable[[], object]) -> float:
    """Of one call."""
    started = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - started)


def waited() -> float:
    before = RANKS.waited
    spent = milliseconds(resnet_step())
    return 1e5 * (RANKS.waited - before) / spent


def reduced(sum_up: Callable[[np.ndarray], Any]) -> float:
    array()[:] = 1
    return milliseconds(lambda: sum_up(array()))


def mpi_sum(summed: np.ndarray) -> None:
    from mpi4py import MPI

    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, summed)


QUESTIONS: dict[str, Callable[[], float]] = {
    "step": lambda: milliseconds(resnet_step()),
    "waited": waited,
    "all_reduce": lambda: reduced(lambda summed: RANKS.add_up([summed])),
    "mpi_all_reduce": lambda: reduced(mpi_sum),
}


STEPS = ("step", "waited")
TAG = 1000
"""Of messages with questions."""


def questions() -> Iterator[str]:
    """Each line of rank 0's standard input, in all processes; others sleep until there is one."""
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
        resnet_step()  # traced and compiled before all processes begin together
    RANKS.to_all(None)
    answer = QUESTIONS[question]()
    if RANKS.is_first:
        print(answer, flush=True)

"""What shards and processes cost: a ResNet-50 step in shards against the whole batch, two processes against one with
two threads, and an all-reduce against MPI's.

    python -m benchmarks.scale                       all figures, as JSON
    mpiexec -n 2 python -m benchmarks.scale all-reduce

Needs the extra `distributed`. Each figure compares two ways in one run, by the faster half of alternating rounds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.engine.sharding import Shards
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner.ranks import ALONE, Group
from trainer.recipes.parts.resnet import Bottleneck, ResNet

ROUNDS = 4
REDUCED_BYTES = 100_000_000


def resnet_step(shards: int, batch: int, pixels: int, threads: int, group: Group = ALONE) -> Callable[[], object]:
    """A training step of ResNet-50 with batch norm and SGD, on this process's part of `batch` random images."""
    local = shards // group.size
    parts = Shards(shards, group.rank * local, local, group if group.size > 1 else None)
    net = ResNet((3, 4, 6, 3), Bottleneck, classes=10)
    net.set_seed(0, "net")
    net.train()
    parameters = list(net.parameters())
    generator = np.random.default_rng(0)
    rows = parts.rows(batch)
    images = generator.normal(size=(batch, 3, pixels, pixels)).astype(np.float32)[rows]
    labels = generator.integers(0, 10, batch)[rows]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.cross_entropy(net(x), y) / shards
        for parameter, gradient in zip(parameters, engine.gradients(loss, parameters), strict=True):
            parameter.assign(parameter - 0.01 * engine.shard_sum(gradient))
        return engine.shard_sum(loss)

    device, traced = CpuDevice(threads=threads), engine.trace(step, shards=parts)

    def run() -> object:
        with engine.device(device):
            return traced(images, labels)

    return run


def seconds(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median of the faster half of each way's times, in rounds that alternate between the ways."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for run in ways.values():
        run()
        run()
    for _ in range(ROUNDS):
        for name, run in ways.items():
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(sorted(found)[: ROUNDS // 2]) for name, found in times.items()}


def cost_of_shards(options: argparse.Namespace) -> dict[str, Any]:
    """The time of a step in 8 shards relative to the whole batch, in one process."""
    found = seconds({f"shards={count}": resnet_step(count, options.batch, options.pixels, 2) for count in (1, 8)})
    return {**found, "ratio": found["shards=8"] / found["shards=1"]}


def all_reduce(options: argparse.Namespace) -> dict[str, Any] | None:
    """The time of a sum of 100 MB over the ranks relative to mpi4py's in-place all-reduce."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    group, array = Group(world), np.ones(REDUCED_BYTES // 4, np.float32)

    def together(reduce: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            array[:] = 1
            world.Barrier()
            return reduce()

        return run

    ways = {
        "trainer": together(lambda: group.add_up([array])),
        "mpi": together(lambda: world.Allreduce(MPI.IN_PLACE, array)),
    }
    found = seconds(ways)
    return {**found, "ratio": found["trainer"] / found["mpi"]} if group.is_first else None


def step_of_processes(options: argparse.Namespace) -> dict[str, Any] | None:
    """The time of a step in two shards: of this world's ranks, with one thread each."""
    from mpi4py import MPI

    group = Group(MPI.COMM_WORLD)
    run = resnet_step(2, options.batch, options.pixels, 2 // group.size, group)
    found = seconds({"step": run})
    steps = 2 + ROUNDS
    return {**found, "waited_share": group.waited / steps / found["step"]} if group.is_first else None


def in_ranks(count: int, figure: str, options: argparse.Namespace) -> dict[str, Any]:
    """A figure that `count` processes measure together."""
    launcher = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:/usr/bin")
    assert launcher is not None, "no mpiexec"
    command = [launcher, "-n", str(count), sys.executable, "-m", "benchmarks.scale", figure]
    command += ["--batch", str(options.batch), "--pixels", str(options.pixels)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures: dict[str, Any] = json.loads(found)[figure]
    return figures


FIGURES = {"cost-of-shards": cost_of_shards, "all-reduce": all_reduce, "step-of-processes": step_of_processes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", nargs="?", choices=FIGURES)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--pixels", type=int, default=128)
    options = parser.parse_args()
    if options.figure is not None:
        if (found := FIGURES[options.figure](options)) is not None:
            print(json.dumps({options.figure: found}))
        return
    one, two = (in_ranks(count, "step-of-processes", options) for count in (1, 2))
    figures = {
        "cost-of-shards": cost_of_shards(options),
        "all-reduce": in_ranks(2, "all-reduce", options),
        "two-processes": {"one": one, "two": two, "efficiency": one["step"] / two["step"]},
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

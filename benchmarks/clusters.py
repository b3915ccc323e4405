"""Predicts the cost of data-parallel training on clusters from that of a step and its messages on this machine.

    python benchmarks/clusters.py [ranks_2 ranks_4] [--json] [--rounds N]     predictions against measurements here
    python benchmarks/clusters.py --table                                     the table of docs/scale.md

Needs the extra `distributed`.

measured   two ranks with one thread each: seconds of a ResNet-50 step between its exchanges, without the exchanges;
           seconds of a sum by its size
simulated  P ranks, each with measured compute times. A sum takes log2 P rounds, of halves or of the whole array. CPU
           ranks run it themselves, when they need it and all have started it; GPUs keep computing meanwhile
checked    the step's time with 2 and 4 ranks here. If ranks outnumber cores, all work slows down by that factor: ranks
           share cores, and a waiting rank yields its core. Threads of other programs count as ranks

Predictions for this machine use measured compute times and median sums, with the delays by other programs; those for
clusters use the fastest times.
The bar is 15 %: rounds of the same step on one machine differ by 5 to 10 %, and this is enough to choose between two
clusters. A node of a cluster is this machine with one rank per core.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import ROOT, Figure, checkout_environment, require, run_figures

from trainer.learner.ranks.tree import SMALL_BYTES

BAR = 15.0
CORES = 2
"""Number of processes that measure costs, each on its own core."""

SAMPLES = 16
GPU_IMAGES_PER_SECOND = 2500.0
"""Assumed speed of one GPU, not measured: NVIDIA's published value for ResNet-50 in 16 bits on an A100, rounded."""

GPU_IMAGES = 128
"""Images per GPU and step."""

GPU_ADD_BYTES_PER_SECOND = 1e12
"""Assumed: an addition reads two arrays and writes one, at 3 TB/s."""


@dataclass(frozen=True)
class Measured:
    """The output of `workloads/clustered.py`."""

    marks: list[list[Any]]
    seconds: np.ndarray
    steps: list[float]
    sums: list[list[float]]
    share: float = 1.0

    @property
    def slowdown(self) -> float:
        """How many times as long a rank takes as on its own core, from the share of a processor that it had."""
        return max(1.0, 1 / self.share)

    @property
    def alone(self) -> float:
        """Mean seconds of a step without waits."""
        return float(self.seconds.sum(axis=1).mean())

    @property
    def undisturbed(self) -> Measured:
        """These measurements with the fastest times only."""
        fastest = [[nbytes, least, least] for nbytes, _, least in self.sums]
        return Measured(self.marks, self.seconds.min(axis=0, keepdims=True), self.steps, fastest)

    def sum_seconds(self, nbytes: float) -> float:
        """Seconds of a sum of one array over two ranks here: interpolated, or proportional above the largest size."""
        sizes, found, _ = zip(*self.sums, strict=True)
        if nbytes <= sizes[-1]:
            return float(np.interp(nbytes, sizes, found))
        return float(found[-1] * nbytes / sizes[-1])


@dataclass(frozen=True)
class Round:
    """One of the log2 P rounds of a sum: bytes that a rank sends, whole or in two halves, and the distance."""

    nbytes: float
    messages: int
    distance: int


@dataclass(frozen=True)
class Link:
    """A network: bits per second of one node, and the minimum seconds of a message."""

    bits: float
    latency: float

    def seconds(self, each: Round, sharing: int) -> float:
        """Returns the seconds of a round for one of `sharing` ranks that use the link at once."""
        return each.messages * self.latency + each.nbytes * 8 * sharing / self.bits


LINKS = {25: Link(25e9, 20e-6), 400: Link(400e9, 4e-6)}
"""By Gbit/s: Ethernet through the kernel, and InfiniBand. Latencies are assumed."""

GPU_LATENCY = 15e-6
"""Assumed extra seconds of a message and the addition after it, for NCCL's kernel and the engine's."""


def measured(ranks: int) -> Measured:
    """Measures with this number of ranks on this machine."""
    launcher = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:/usr/bin")
    if launcher is None:
        raise SystemExit("this benchmark needs mpiexec; pip install 'lucid-trainer[distributed]' has it")
    command = [launcher, "-n", str(ranks), sys.executable, str(ROOT / "benchmarks/workloads/clustered.py")]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=checkout_environment())
    found = json.loads(done.stdout.splitlines()[-1])
    return Measured(found["marks"], np.asarray(found["seconds"]), found["steps"], found["sums"], found["share"])


def parts(sizes: Sequence[int]) -> list[int]:
    """Returns the bytes of each exchanged array: large values separately, small ones together."""
    small = sum(size for size in sizes if size <= SMALL_BYTES)
    return [size for size in sizes if size > SMALL_BYTES] + ([small] if small else [])


def rounds(nbytes: int, ranks: int) -> list[Round]:
    """Returns the rounds of a sum over `ranks`, a power of two."""
    is_whole, distances = nbytes <= SMALL_BYTES, [1 << number for number in range(ranks.bit_length() - 1)]
    return [Round(nbytes, 1, each) if is_whole else Round(nbytes / each, 2, each) for each in distances]


def simulated(
    costs: Measured, ranks: int, seconds: Callable[[Round], float], *, scale: float = 1.0, is_aside: bool = False
) -> float:
    """Returns the mean seconds of a step.

    Args:
        seconds: returns the seconds of one round of a sum.
        scale: factor on the compute times.
        is_aside: sums are packed, and run one after another while the rank computes.
    """

    @functools.cache
    def sum_of(nbytes: int) -> float:
        return sum(seconds(each) for each in rounds(nbytes, ranks))

    total, generator = 0.0, np.random.default_rng(0)
    for _ in range(SAMPLES):
        own = scale * costs.seconds[generator.integers(0, len(costs.seconds), ranks)]
        clocks, channel, begun = np.zeros(ranks), 0.0, {}
        for place, mark in enumerate(costs.marks):
            clocks += own[:, place]
            if mark[0] == "finish":
                start, cost = begun[mark[1]]
                clocks = np.maximum(clocks, start) + cost
            elif is_aside:
                channel = max(channel, clocks.max()) + sum_of(sum(mark[2]))
                begun[mark[1]] = channel, 0.0
            else:
                begun[mark[1]] = clocks.max(), sum(map(sum_of, parts(mark[2])))
        total += float((clocks + own[:, -1]).max())
    return total / SAMPLES


def here(costs: Measured, ranks: int, others: float) -> float:
    """Predicted seconds of a step with `ranks` ranks on this machine while `others` other threads are busy."""
    sharing = max(1.0, (ranks + others) / CORES) / costs.slowdown
    return simulated(costs, ranks, lambda each: sharing * costs.sum_seconds(each.nbytes), scale=sharing)


def of_nodes(costs: Measured, nodes: int, link: Link) -> float:
    """Predicted seconds of a step on nodes like this machine. The first round of a sum stays within a node."""
    size, slowest, _ = costs.sums[-1]
    overhead, add = costs.sum_seconds(0), slowest / size / 2  # about half of a sum here is its additions

    def seconds(each: Round) -> float:
        if each.distance < CORES:
            return costs.sum_seconds(each.nbytes)
        return overhead + each.nbytes * add + link.seconds(each, CORES)

    return simulated(costs, nodes * CORES, seconds)


def of_gpus(costs: Measured, gpus: int, link: Link) -> tuple[float, float]:
    """Predicted seconds of a step on GPUs with one link each, and of a step without waits."""
    alone = GPU_IMAGES / GPU_IMAGES_PER_SECOND

    def seconds(each: Round) -> float:
        return each.messages * GPU_LATENCY + each.nbytes / GPU_ADD_BYTES_PER_SECOND + link.seconds(each, 1)

    return simulated(costs, gpus, seconds, scale=alone / costs.alone, is_aside=True), alone


def others(found: Measured, ranks: int) -> float:
    """Returns how many threads of other programs were busy, from the share of processors that the ranks had."""
    return max(0.0, CORES * found.slowdown - ranks)


def error(ranks: int) -> float:
    """Returns the relative error of the predicted step time, in percent."""
    costs = measured(CORES)
    found = costs if ranks == CORES else measured(ranks)
    return 100 * abs(here(costs, ranks, others(found, ranks)) / float(np.mean(found.steps)) - 1)


def table() -> str:
    """Predictions and measurements of one run, as Markdown."""
    costs, four = measured(CORES), measured(4)
    lines = ["| where | link | step | efficiency | measured | predicted / measured |", "|---|---|---|---|---|---|"]
    for ranks, found in ((2, costs), (4, four)):
        step, real = here(costs, ranks, others(found, ranks)), float(np.mean(found.steps))
        efficiency = costs.alone * (others(found, ranks) + ranks) / CORES / costs.slowdown / step
        lines.append(f"| {ranks} ranks on {CORES} cores | memory | {_ms(step)} | {efficiency:.2f} | {_ms(real)} | "
                     f"{step / real:.2f} |")  # fmt: skip
    costs = costs.undisturbed
    for gbits, link in LINKS.items():
        step, alone = of_gpus(costs, 8, link)
        lines.append(f"| 8 GPUs | {gbits} Gbit/s | {_ms(step)} | {alone / step:.2f} | | |")
    for gbits, link in LINKS.items():
        step = of_nodes(costs, 64, link)
        lines.append(f"| 64 nodes | {gbits} Gbit/s | {_ms(step)} | {costs.alone / step:.2f} | | |")
    sums = sum(sum(mark[2]) for mark in costs.marks if mark[0] == "begin")
    begun = sum(mark[0] == "begin" for mark in costs.marks)
    size, seconds, _ = costs.sums[-1]
    lines.append(
        f"\n{begun} exchanges and {sums / 1e6:.0f} MB a step; a step without waits: {_ms(costs.alone)}; "
        f"a sum over two ranks: {_ms(costs.sum_seconds(0))} at least, {size / 1e9 / seconds:.1f} GB/s."
    )
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms" if seconds > 0.1 else f"{1e3 * seconds:.2g} ms"


FIGURES = [
    Figure(f"ranks_{ranks}", ours=functools.partial(error, ranks), bar=BAR, unit="%", rounds=1) for ranks in (2, 4)
]


def main() -> int:
    require(mpi4py="mpi4py")
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--table", action="store_true")
    arguments, others = parser.parse_known_args()
    if arguments.table:
        print(table())
        return 0
    return run_figures(FIGURES, others)


if __name__ == "__main__":
    raise SystemExit(main())

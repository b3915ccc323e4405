"""Cost of shards and processes, and a check that results stay bitwise equal.

python benchmarks/scale.py [NAME …] [--json] [--rounds N] [--batch N] [--pixels N]

Needs the extra `distributed`. Peers run in this environment: a step of the whole batch, one process with equally many
threads, and mpi4py's in-place all-reduce. `--batch` and `--pixels` set the size of ResNet-50's batches.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import ROOT, Companion, Figure, checkout_environment, require, run_figures

from trainer.learner.checkpoints import first_difference, read_checkpoint

OPTIONS = argparse.ArgumentParser(add_help=False)
OPTIONS.add_argument("--batch", type=int, default=32, help="images in a batch of ResNet-50")
OPTIONS.add_argument("--pixels", type=int, default=224, help="height and width of ResNet-50's images")
CHOSEN, REST = OPTIONS.parse_known_args()

WORKLOAD = str(Path(__file__).parent / "workloads" / "ranks.py")
CORES = 2
"""Number of threads of one process, and of processes that are compared with it."""

STEPS, STOPPED = 50, 25
SHARDS = 4
OVERRIDES = {
    "digits": ("data.valid_batch_size=100",),
    "detection": ("data.max_objects=64", "validate={every_steps: 50}"),
    "transformer": (),
}
"""Recipes whose training must be bitwise equal on any number of processes, and the overrides that this requires."""


@functools.cache
def world(processes: int, shards: int, threads: int) -> Companion:
    """Returns processes that wait for requests, each with `threads` threads."""
    words = (sys.executable, WORKLOAD, f"--shards={shards}", f"--threads={threads}")
    size = (f"--batch={CHOSEN.batch}", f"--pixels={CHOSEN.pixels}")
    return Companion(*(launcher(processes) if processes > 1 else ()), *words, *size)


def launcher(processes: int) -> tuple[str, ...]:
    """Returns the command that starts `processes` processes."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which("mpiexec", path=path)
    if found is None:
        raise SystemExit("this benchmark needs mpiexec: install MPICH or Open MPI")
    return found, "-n", str(processes)


def asked(question: str, *, processes: int = 1, shards: int = 1, threads: int = 1) -> Callable[..., float]:
    """Returns a function that sends a request to `workloads/ranks.py`; as a peer, it ignores the interpreter."""
    return lambda _python="": world(processes, shards, threads)(question)


def differences(recipe: str) -> float:
    """Counts which of three trainings differ from one in a single process: in two processes, in four, and stopped in
    four and resumed in one.
    """
    config, settings = ROOT / "trainer" / "recipes" / recipe / "config.yaml", (f"train.shards={SHARDS}",)
    settings += (
        "schedule={name: constant}",  # others depend on the number of steps, which is smaller in the stopped run
        "train.epochs=null",
        "train.log_every_steps=5",  # training metrics cover the steps since the last record
        'autotune={mode: "off"}',
        *OVERRIDES[recipe],
    )
    with tempfile.TemporaryDirectory(prefix="trainer-scale-") as folder:

        def train(name: str, steps: int, processes: int, *, resumes: bool = False) -> None:
            start = (
                ("--resume", f"{folder}/{name}")
                if resumes
                else (str(config), *settings, "--run-dir", f"{folder}/{name}")
            )
            words = (*start, f"train.steps={steps}", f"train.processes={processes}", "--plain")
            command = [sys.executable, "-m", "trainer.cli", "run", *words]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=checkout_environment())

        train("one", STEPS, 1)
        train("two", STEPS, 2)
        train("four", STEPS, 4)
        train("resumed", STOPPED, 4)
        train("resumed", STEPS, 1, resumes=True)
        whole, *others = (
            read_checkpoint(Path(folder, name, "checkpoints", f"step-{STEPS}"))
            for name in ("one", "two", "four", "resumed")
        )
        found = [difference for other in others if (difference := first_difference(whole, other)) is not None]
    for difference in found:
        print(f"{recipe}: {difference}", file=sys.stderr)
    return len(found)


def all_reduce(processes: int) -> Figure:
    """An all-reduce (sum) of 100 MB over the processes."""
    ours, peer = (asked(question, processes=processes) for question in ("all_reduce", "mpi_all_reduce"))
    return Figure(f"all_reduce_{processes}", ours, peer, 1 / 1.3, needs_peer_python=False)


FIGURES = [
    Figure(
        "shards_8", asked("step", shards=8, threads=CORES), asked("step", threads=CORES), 1 / 1.1,
        needs_peer_python=False, rounds=5,
    ),
    Figure(
        "two_processes", asked("step", processes=CORES, shards=CORES),
        asked("step", shards=CORES, threads=CORES), 0.9, needs_peer_python=False, rounds=5,
    ),
    Figure("stamped_waits", asked("waited", processes=CORES, shards=CORES), bar=5.0, unit="% of a step", rounds=5),
    all_reduce(2),
    all_reduce(4),
    *(
        Figure(
            f"equal_bits_{recipe}", functools.partial(differences, recipe), bar=0.5, unit="trainings that differ",
            rounds=1, is_timing=False,
        )
        for recipe in OVERRIDES
    ),
]  # fmt: skip

if __name__ == "__main__":
    require(mpi4py="mpi4py")
    sys.exit(run_figures(FIGURES, REST))

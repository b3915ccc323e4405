"""Error of the estimates of `trainer run --dry-run` relative to the run that follows it: at most 10 % of the peak
memory and 20 % of the epoch time.

    python benchmarks/dry_run.py [epoch/digits memory/clothes …] [--json] [--rounds N]

    epoch/NAME     seconds of an epoch after the first, with its validation
    memory/NAME    peak resident memory of the training process

Both measured processes start with kernels that a dry run has compiled, as a user's run does.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import Figure, checkout_environment, run_figures

from trainer.rundir import PhaseEvent, RunPaths, read_events

NAMES = ("digits", "clothes", "detection", "segmentation", "nuclei")
EPOCHS = 4
MOST_OF_EPOCH, MOST_OF_MEMORY = 0.2, 0.1


@dataclass(frozen=True)
class Measured:
    """Seconds of an epoch, and peak memory in bytes."""

    epoch: float
    memory: float


def pair(name: str) -> tuple[Measured, Measured]:
    """Returns the estimates of a recipe's dry run, and the measurements of its run.

    Raises:
        RuntimeError: one of them failed.
    """
    with tempfile.TemporaryDirectory(prefix="dry-run-") as folder:
        environment = checkout_environment(TRAINER_CACHE_DIR=str(Path(folder) / "cache"))
        place = Path(folder) / "run"
        command = [sys.executable, "-P", "-m", "trainer.cli", "run", name, f"train.epochs={EPOCHS}"]
        command.append("validate.every_epochs=1")
        dry = subprocess.run([*command, "--dry-run", "--json"], env=environment, capture_output=True, text=True)
        if dry.returncode:
            raise RuntimeError(f"{name}: the dry run ended with {dry.returncode}:\n{dry.stderr}")
        found = json.loads(dry.stdout)
        run = subprocess.Popen(
            [*command, "--in-process", "--plain", f"--run-dir={place}"], env=environment, stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode:
            raise RuntimeError(f"{name}: the run ended with {run.returncode}")
        unit = 1 if sys.platform == "darwin" else 1024
        said = Measured(found["epoch_seconds"], found["peak_memory"])
        taken = Measured(epoch_seconds(RunPaths(place).events), used.ru_maxrss * unit)
        print(f"{name}: estimated {said}, measured {taken}", file=sys.stderr)
        return said, taken


def epoch_seconds(events: Path) -> float:
    """Returns the mean seconds of an epoch, from the end of the first epoch's validation to the end of the last's."""
    ends = [
        record.time
        for record in read_events(events)
        if isinstance(record.event, PhaseEvent) and (record.event.name, record.event.state) == ("validate", "finished")
    ]
    each = len(ends) // EPOCHS  # averaged weights have their own validation
    return (ends[-1] - ends[each - 1]) / (EPOCHS - 1)


_pairs: dict[str, tuple[Measured, Measured]] = {}


def epoch_error(name: str) -> float:
    """Measures again; returns the relative error of the epoch time."""
    said, taken = _pairs[name] = pair(name)
    return abs(said.epoch / taken.epoch - 1)


def memory_error(name: str) -> float:
    """Returns the relative error of the peak memory, from the last measurement if there is one."""
    said, taken = _pairs.get(name) or pair(name)
    return abs(said.memory / taken.memory - 1)


FIGURES = [
    Figure(f"{kind}/{name}", functools.partial(error, name), bar=most, unit="", rounds=1, is_timing=kind == "epoch")
    for name in NAMES
    for kind, error, most in (("epoch", epoch_error, MOST_OF_EPOCH), ("memory", memory_error, MOST_OF_MEMORY))
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))

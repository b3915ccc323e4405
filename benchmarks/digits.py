"""Measures the recipe `digits` from the command to the end event: accuracy, wall time, and time to the first step.

    python benchmarks/digits.py [name …] [--json] [--rounds N]

Every measurement runs the command `trainer run digits`; figures other than `wall_cold` are read from its events. A cold
run has an empty folder for compiled kernels; a warm one has the folder of an earlier run. `test_accuracy` takes a
different seed each time.
"""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import Figure, checkout_environment, run_figures

from trainer import open_run
from trainer.rundir import EndEvent, MetricEvent, Record, RunPaths, SystemEvent, read_events

ONE_STEP = ("train.steps=1",)


def train(overrides: Sequence[str], run_dir: Path, cache: Path) -> float:
    """Runs the recipe into `run_dir`, with compiled kernels in `cache`; returns the seconds from command to exit."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "trainer.cli",
        "run",
        "digits",
        "--plain",
        f"--run-dir={run_dir}",
        *overrides,
    ]
    started = time.perf_counter()
    finished = subprocess.run(
        command, capture_output=True, text=True, env=checkout_environment(TRAINER_CACHE_DIR=str(cache)), check=False
    )
    if finished.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {finished.returncode}:\n{finished.stdout}{finished.stderr}")
    return time.perf_counter() - started


@contextmanager
def fresh() -> Iterator[tuple[Path, Path]]:
    """Yields a run directory and an empty folder for compiled kernels, both deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="digits-") as folder:
        yield Path(folder) / "run", Path(folder) / "cache"


def seconds_to_first_step(records: Sequence[Record]) -> float:
    """Returns the seconds from the start of the command to the record of step 1."""
    return next(
        record.since_start
        for record in records
        if isinstance(record.event, MetricEvent) and record.event.split == "train" and record.event.step == 1
    )


def test_accuracy(seeds: Iterator[int]) -> float:
    """Returns the test accuracy in the end event of a run with the next seed."""
    with fresh() as (run_dir, cache):
        train([f"seed={next(seeds)}"], run_dir, cache)
        end = open_run(run_dir).end
        assert isinstance(end, EndEvent)
        return float(end.metrics["test/accuracy"])


def wall_cold() -> float:
    """Seconds of the whole command with nothing compiled before."""
    with fresh() as (run_dir, cache):
        return train([], run_dir, cache)


def digits_wait() -> float:
    """Returns the share of time that training waits for data, over a whole run."""
    with fresh() as (run_dir, cache):
        train([], run_dir, cache)
        events = (record.event for record in read_events(RunPaths(run_dir).events))
        logs = [event for event in events if isinstance(event, SystemEvent) and event.step_ms is not None]
        waits = [event.data_wait for event in logs if event.data_wait is not None]
        return sum(waits) / len(waits)


def first_step_cold() -> float:
    """Seconds from the command to the first step with nothing compiled before."""
    with fresh() as (run_dir, cache):
        train(ONE_STEP, run_dir, cache)
        return seconds_to_first_step(read_events(RunPaths(run_dir).events))


def first_step_warm(cache: Callable[[], Path]) -> float:
    """Seconds from the command to the first step, with kernels that an earlier run compiled."""
    with fresh() as (run_dir, _):
        train(ONE_STEP, run_dir, cache())
        return seconds_to_first_step(read_events(RunPaths(run_dir).events))


@functools.cache
def warm_cache() -> Path:
    """Returns a folder of kernels that one run compiled; it stays until the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="digits-warm-")
    _kept.append(folder)
    train(ONE_STEP, Path(folder.name) / "run", Path(folder.name) / "cache")
    return Path(folder.name) / "cache"


_kept: list[tempfile.TemporaryDirectory[str]] = []

FIGURES = [
    Figure(
        "test_accuracy",
        functools.partial(test_accuracy, itertools.count()),
        bar=0.99,
        better="higher",
        unit="of 1",
        rounds=3,
        is_timing=False,
    ),
    Figure("wall_cold", wall_cold, bar=60.0, unit="s", rounds=3),
    Figure("digits_wait", digits_wait, bar=0.02, unit="of 1", rounds=3),
    Figure("first_step_cold", first_step_cold, bar=3.0, unit="s", rounds=5),
    Figure("first_step_warm", functools.partial(first_step_warm, warm_cache), bar=1.5, unit="s", rounds=5),
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))

"""Seconds that a run takes to stop, from the interrupt to the exit, including a checkpoint. The documentation says ten
seconds at most.

    python benchmarks/stopping.py [training/digits compiling/clothes …] [--json] [--rounds N]

    training/NAME     interrupts a recipe that has begun to train
    compiling/NAME    interrupts a recipe that is tracing and compiling its training step, with an empty kernel cache
"""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Figure, checkout_environment, run_figures
from recipes import ROWS

from trainer.rundir import Event, MetricEvent, PhaseEvent, RunPaths, read_events

MOST_SECONDS = 10.0
LOOKS_EVERY = 0.02
BEGINS_WITHIN = 120.0


def has_begun(event: Event, moment: str) -> bool:
    """Returns whether an event marks the moment to interrupt."""
    if moment == "training":
        return isinstance(event, MetricEvent) and event.split == "train"
    return isinstance(event, PhaseEvent) and event.name == "compile"


def seconds_to_stop(moment: str, name: str) -> float:
    """Seconds from the interrupt at a moment of a recipe's run to the command's exit.

    Raises:
        RuntimeError: the run did not reach the moment, or did not stop as interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="stopping-") as folder:
        place = Path(folder) / "run"
        command = [sys.executable, "-P", "-m", "trainer.cli", "run", name, "--plain", f"--run-dir={place}"]
        environment = checkout_environment(TRAINER_CACHE_DIR=str(Path(folder) / "cache"))
        process = subprocess.Popen([*command, "train.log_every_steps=1"], env=environment, stdout=subprocess.DEVNULL)
        try:
            wait_for(process, moment, RunPaths(place).events)
            began = time.perf_counter()
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=BEGINS_WITHIN)
            seconds = time.perf_counter() - began
        finally:
            process.kill()
            process.wait()
        if code != 128 + signal.SIGINT:
            raise RuntimeError(f"{name}: interrupted while {moment}: exit code {code}, expected {128 + signal.SIGINT}")
        return seconds


def wait_for(process: subprocess.Popen[bytes], moment: str, events: Path) -> None:
    """Waits until a run's events mark the moment."""
    began = time.perf_counter()
    while not (events.exists() and any(has_begun(record.event, moment) for record in read_events(events))):
        if process.poll() is not None or time.perf_counter() - began > BEGINS_WITHIN:
            raise RuntimeError(f"no {moment} within {BEGINS_WITHIN:.0f} seconds, exit code {process.poll()}")
        time.sleep(LOOKS_EVERY)


FIGURES = [
    Figure(f"{moment}/{name}", functools.partial(seconds_to_stop, moment, name), bar=MOST_SECONDS, unit="s", rounds=3)
    for moment in ("training", "compiling")
    for name in ROWS
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))

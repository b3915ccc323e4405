"""Trains a recipe as a separate command that can be interrupted and resumed, and that reports its progress."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import checkout_environment
from load import Watch

from trainer import open_run
from trainer.rundir import EndEvent, Run

SECONDS_BETWEEN = 30.0
"""Seconds between two reports of a run's progress."""


@dataclass(frozen=True)
class Training:
    """A finished command: its run, its wall time (None if it resumed an interrupted run), and the share of the machine
    that other processes used during it.
    """

    run: Run
    end: EndEvent
    seconds: float | None
    disturbance: float

    @property
    def taken(self) -> float:
        """Wall time of the command or, for an interrupted run, of all attempts, including repeated steps."""
        return self.run.seconds if self.seconds is None else self.seconds


def train(
    name: str, overrides: Sequence[str], folder: Path, report: Callable[[Run], None] = lambda run: None
) -> Training:
    """Trains a recipe in `folder`/run, with a kernel cache in `folder`/cache, or resumes the run in that folder. Saves
    the time of a finished run in `folder`/timed.json.

    Args:
        report: called with the run every SECONDS_BETWEEN seconds during training.

    Raises:
        RuntimeError: the run failed.
    """
    place, timed = folder / "run", folder / "timed.json"
    began_before = place.exists()
    if not (began_before and isinstance(open_run(place).end, EndEvent) and open_run(place).end.status == "done"):
        watch = Watch()
        _run(name, [f"--run-dir={place}", *overrides], folder / "cache", lambda: report(open_run(place)))
        seconds = None if began_before else watch.seconds
        written = timed.with_suffix(".part")
        written.write_text(json.dumps({"seconds": seconds, "disturbance": watch.disturbance}), encoding="utf-8")
        written.rename(timed)
    run = open_run(place)
    assert isinstance(run.end, EndEvent)
    known = json.loads(timed.read_text(encoding="utf-8")) if timed.exists() else {"seconds": None, "disturbance": 0.0}
    return Training(run, run.end, **known)


def _run(name: str, arguments: Sequence[str], cache: Path, report: Callable[[], None]) -> None:
    """Runs `trainer run`, and ends it if this process is interrupted."""
    command = [sys.executable, "-P", "-m", "trainer.cli", "run", name, "--plain", "--resume=auto", *arguments]
    environment = checkout_environment(TRAINER_CACHE_DIR=str(cache))
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment) as process,
    ):
        try:
            while process.poll() is None:
                try:
                    process.wait(SECONDS_BETWEEN)
                except subprocess.TimeoutExpired:
                    report()
        except BaseException:
            process.terminate()  # it finishes its step and writes a checkpoint; leaving the block waits for it
            raise
        output.seek(0)
        if process.returncode:
            raise RuntimeError(f"trainer run {name} ended with {process.returncode}:\n{output.read()}")


def remaining(run: Run) -> float | None:
    """Returns the run's own estimate of the seconds until training ends; None before the first estimate."""
    phase = run.phases.get("train")
    return None if phase is None else phase.remaining


def progress(run: Run) -> str:
    """Describes the progress of a run: the phases that have begun and not ended."""
    told = [
        f"{name} {phase.done:g} of {phase.total:g} {phase.unit or ''}".rstrip()
        if phase.done is not None and phase.total is not None
        else name
        for name, phase in run.phases.items()
        if phase.state not in ("finished", "failed")
    ]
    return ", ".join(told) or "starting"

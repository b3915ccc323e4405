"""The folder of a sweep.

sweep.yaml     the resolved config with its `sweep:` section; every trial is a run of it with other values
journal.log    Optuna's journal: all trials with their values and results
trials.json    the same for readers, replaced after every change
best.yaml      the resolved config of the best trial, for `trainer run`
trial-N/       run directories; with several seeds trial-N-seed-S/
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer import TrainerError
from trainer.rundir import RunPaths, write_error, write_text

if sys.platform != "win32":
    import fcntl

FORMAT = 1
SWEEPS = "sweeps"
"""The folder of sweeps, relative to the working directory."""

RUNNING, COMPLETE, PRUNED, FAILED = "running", "complete", "pruned", "failed"


@dataclass(frozen=True)
class Trial:
    """One trial.

    Attributes:
        number: from 0, in the order of their start.
        state: running, complete, pruned (stopped early by the method) or failed.
        parameters: the values of the parameters.
        value: best value of the metric, the mean over seeds; None before the first one.
        reason: why it failed.
    """

    number: int
    state: str
    parameters: Mapping[str, Any]
    value: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class SweepState:
    """The results of a sweep so far.

    Attributes:
        metric, mode: the metric that compares trials, and which end is better, max or min.
        total: planned number of trials.
        logarithmic: the parameters with a logarithmic scale.
        importance: fraction of the metric's variation that each parameter explains; empty with too few trials.
    """

    metric: str
    mode: str
    method: str
    total: int
    seeds: int = 1
    logarithmic: Sequence[str] = ()
    trials: Sequence[Trial] = ()
    importance: Mapping[str, float] = field(default_factory=dict)

    @property
    def ranked(self) -> list[Trial]:
        """Complete trials, the best one first; of equal ones, the earlier one first."""
        sign = -1.0 if self.mode == "max" else 1.0
        complete = [(sign * trial.value, trial) for trial in self.trials
                    if trial.state == COMPLETE and trial.value is not None]  # fmt: skip
        return [trial for _, trial in sorted(complete, key=lambda pair: (pair[0], pair[1].number))]

    @property
    def best(self) -> Trial | None:
        """The best complete trial; None before one has ended."""
        return next(iter(self.ranked), None)

    @property
    def course(self) -> list[tuple[int, float, float]]:
        """Number and value of each complete trial, and the best value up to it."""
        pick = max if self.mode == "max" else min
        complete = [(trial.number, trial.value) for trial in self.trials
                    if trial.state == COMPLETE and trial.value is not None]  # fmt: skip
        best = itertools.accumulate((value for _, value in complete), pick)
        return [(number, value, so_far) for (number, value), so_far in zip(complete, best, strict=True)]

    def count(self, *states: str) -> int:
        """The number of trials in one of these states."""
        return sum(trial.state in states for trial in self.trials)


@dataclass(frozen=True)
class SweepPaths:
    """The files of a sweep."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "sweep.yaml"

    @property
    def journal(self) -> Path:
        return self.root / "journal.log"

    @property
    def state(self) -> Path:
        return self.root / "trials.json"

    @property
    def best(self) -> Path:
        return self.root / "best.yaml"

    def run(self, number: int, seed: int, seeds: int) -> RunPaths:
        """The run directory of a trial; `seed` counts from 0."""
        name = f"trial-{number}" if seeds == 1 else f"trial-{number}-seed-{seed}"
        return RunPaths(self.root / name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Excludes other processes from running the sweep; the system releases the lock of a killed process.

        Raises:
            TrainerError: another process runs it, or the folder can't be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with open(self.root / ".lock", "a", encoding="ascii") as file:
                if sys.platform != "win32":
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError as error:
                        raise TrainerError(
                            "another process runs this sweep", where=str(self.root),
                            hint=f"Watch it with `trainer watch {self.root}`.",
                        ) from error  # fmt: skip
                yield
        except OSError as error:
            raise write_error(error.filename or self.root, error) from error


def is_sweep(path: Path) -> bool:
    """Whether a folder contains a sweep."""
    return (path / "sweep.yaml").is_file()


def read_state(paths: SweepPaths) -> SweepState:
    """Reads the results of the sweep so far.

    Raises:
        TrainerError: there is no trial yet, or the file is damaged.
    """
    try:
        fields = json.loads(paths.state.read_text(encoding="utf-8"))
        if fields.pop("format") != FORMAT:
            raise ValueError("of another version of trainer")
        trials = [Trial(**trial) for trial in fields.pop("trials")]
        return SweepState(**fields, trials=trials)
    except FileNotFoundError as error:
        raise TrainerError("this sweep has no trials yet", where=str(paths.root)) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TrainerError(
            "the file of trials is damaged", where=str(paths.state), found=str(error),
            hint="`trainer sweep` on the folder writes it again.",
        ) from error  # fmt: skip


def write_state(paths: SweepPaths, state: SweepState) -> None:
    """Replaces the file for readers.

    Raises:
        TrainerError: it can't be written.
    """
    write_text(paths.state, json.dumps({"format": FORMAT, **dataclasses.asdict(state)}, indent=1) + "\n")

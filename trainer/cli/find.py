"""Finds the directory of a run by path or name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.rundir import RunPaths, latest_run, list_runs

if TYPE_CHECKING:
    from trainer.rundir.sweeps import SweepPaths

RUNS = "runs"
"""The folder of runs, relative to the working directory."""

MOST_LISTED = 12
"""Maximum number of runs that an error lists, the newest ones."""


def find_run(word: str | None) -> RunPaths:
    """The run at a path or with a name in `runs/`; None: the latest run. For a sweep, the run of the best trial.

    Raises:
        TrainerError: no such run.
    """
    if word is None:
        latest = latest_run(RUNS)
        if latest is None:
            raise TrainerError(
                "no runs here yet", where=str(Path(RUNS).absolute()), hint="`trainer run digits` creates one."
            )
        return latest
    if (paths := _run_named(word)) is not None:
        return paths
    if (sweep := find_sweep(word)) is not None:
        return _best_run(sweep)
    raise _no_such_run(word)


def _run_named(word: str) -> RunPaths | None:
    every = map(RunPaths, (Path(word), Path(RUNS) / word))
    return next((paths for paths in every if paths.events.is_file() or paths.config(1).is_file()), None)


def find_sweep(word: str | None) -> SweepPaths | None:
    """The sweep at a path or with a name in `sweeps/`; None if there is none, or if a run has the name."""
    from trainer.rundir.sweeps import SWEEPS, SweepPaths, is_sweep

    roots = [] if word is None or _run_named(word) is not None else [Path(word), Path(SWEEPS) / word]
    return next((SweepPaths(root) for root in roots if is_sweep(root)), None)


def _best_run(sweep: SweepPaths) -> RunPaths:
    """The first run of the sweep's best trial; before a trial is complete, the run that started last."""
    from trainer.rundir.sweeps import read_state

    state = read_state(sweep)
    if state.best is not None:
        return sweep.run(state.best.number, 0, state.seeds)
    latest = latest_run(sweep.root)
    if latest is None:
        raise TrainerError("this sweep has no runs yet", where=str(sweep.root))
    return latest


def find_source(word: str) -> Path:
    """A run, a checkpoint or a file: at the given path, or in `runs/`."""
    for path in (Path(word), Path(RUNS) / word):
        if path.exists():
            return path
    if os.sep in word or Path(word).suffix:
        return Path(word)  # the reader reports what is wrong
    raise _no_such_run(word)


def _no_such_run(word: str) -> TrainerError:
    from trainer.configs.problems import did_you_mean  # takes time to import

    names = [run.name for run in list_runs(RUNS)]
    return TrainerError(
        f"no such run: {word}{did_you_mean(word, names, most=MOST_LISTED)}",
        expected="a run directory, or the name of a run in runs/",
    )

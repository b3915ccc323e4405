"""Finds the directory of a run by path or name."""

from __future__ import annotations

import os
from pathlib import Path

from trainer import TrainerError
from trainer.rundir import RunPaths, latest_run, list_runs

RUNS = "runs"
"""The folder of runs, relative to the working directory."""

MOST_LISTED = 12
"""The newest runs, which an error lists."""


def find_run(word: str | None) -> RunPaths:
    """The run at a path or with a name in `runs/`; the latest one for None.

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
    for root in (Path(word), Path(RUNS) / word):
        paths = RunPaths(root)
        if paths.events.is_file() or paths.config(1).is_file():
            return paths
    raise _no_such_run(word)


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

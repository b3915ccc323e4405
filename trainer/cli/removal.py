"""What verbs that delete share: they say what goes, ask, and refuse runs that still train."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from trainer import TrainerError
from trainer.rundir import ALIVE, RunLock, RunPaths, RunSummary, write_error


def refuse_alive(runs: Iterable[RunSummary]) -> None:
    """Raises TrainerError for the first run that still trains."""
    for run in runs:
        if run.status in ALIVE:
            raise TrainerError(
                "this run is not over", where=str(run.paths.root), found=run.status, expected="a run that has ended",
                hint=f"`trainer stop {run.name}` ends it.",
            )  # fmt: skip


def bytes_below(folder: Path) -> int:
    """The size of a folder's files; links count as nothing."""
    total = 0
    for at, _, names in os.walk(folder):
        paths = (Path(at) / name for name in names)
        total += sum(path.lstat().st_size for path in paths if path.is_file() and not path.is_symlink())
    return total


def is_confirmed(question: str, *, is_given: bool) -> bool:
    """Whether `--yes` was given, or the user says so.

    Raises:
        TrainerError: there is no terminal to ask on.
    """
    if is_given:
        return True
    if not sys.stdin.isatty():
        raise TrainerError(
            "standard input is no terminal, so nobody can confirm the deletion", hint="Add --yes to delete."
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def delete_runs(runs: Sequence[RunPaths]) -> None:
    """Delete run directories, each under its own lock, so that nobody begins to train it meanwhile.

    Raises:
        TrainerError: a process trains one of them, or a directory can't be deleted.
    """
    for paths in runs:
        RunLock(paths).acquire()
        try:
            shutil.rmtree(paths.root)
        except OSError as error:
            raise write_error(error.filename or paths.root, error) from error

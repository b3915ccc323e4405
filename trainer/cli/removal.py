"""Shared by commands that delete: list what is deleted, ask for confirmation, refuse runs that are still training."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from trainer import TrainerError
from trainer.rundir import ALIVE, RunLock, RunPaths, RunSummary, write_error


def refuse_alive(runs: Iterable[RunSummary]) -> None:
    """Raises TrainerError for the first run that is still training."""
    for run in runs:
        if run.status in ALIVE:
            raise TrainerError(
                "this run is still training", where=str(run.paths.root), found=run.status,
                expected="a run that has ended",
                hint=f"`trainer stop {run.name}` ends it.",
            )  # fmt: skip


def bytes_below(folder: Path) -> int:
    """The size of a folder's files; links count as 0."""
    total = 0
    for at, _, names in os.walk(folder):
        paths = (Path(at) / name for name in names)
        total += sum(path.lstat().st_size for path in paths if path.is_file() and not path.is_symlink())
    return total


def is_confirmed(question: str, *, is_given: bool) -> bool:
    """Whether `--yes` was given or the user confirms.

    Raises:
        TrainerError: no terminal for the question.
    """
    if is_given:
        return True
    if not sys.stdin.isatty():
        raise TrainerError(
            "can't ask for confirmation: standard input is not a terminal",
            hint="Add --yes to delete without confirmation.",
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def delete_runs(runs: Sequence[RunPaths]) -> None:
    """Deletes run directories, each while holding its lock, so that no process starts training it.

    Raises:
        TrainerError: one of them is being trained, or a directory can't be deleted.
    """
    for paths in runs:
        RunLock(paths).acquire()
        try:
            shutil.rmtree(paths.root)
        except OSError as error:
            raise write_error(error.filename or paths.root, error) from error

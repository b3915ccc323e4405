"""`trainer runs prune`: deletes checkpoints that are neither latest nor best, or whole runs that failed or are old."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.rundir import RunPaths, RunSummary

EXAMPLES = (
    """\
  trainer runs prune --dry-run                  which checkpoints of the runs in runs/ would be deleted
  """
    """trainer runs prune digits-2 --yes             checkpoints of one run
  trainer runs prune --failed              """
    """     runs that failed
  trainer runs prune --older-than 30            runs without an event for 30 days
  """
    """trainer runs prune --failed --older-than 7    runs that failed and are older than a week
"""
)

DAY = 86_400


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="run directories, or names of runs in runs/ (default: all of runs/)"
    )
    parser.add_argument("--failed", action="store_true", help="delete failed and lost runs instead of checkpoints")
    parser.add_argument(
        "--older-than",
        type=float,
        metavar="DAYS",
        help="delete runs without an event for this many days, instead of checkpoints",
    )
    parser.add_argument("--dry-run", action="store_true", help="list what would be deleted without deleting it")
    parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")


def execute(arguments: argparse.Namespace) -> int:
    from trainer import TrainerError
    from trainer.cli.find import RUNS, find_run
    from trainer.cli.removal import bytes_below, delete_runs, is_confirmed
    from trainer.cli.summaries import summaries
    from trainer.rundir import ALIVE, list_runs

    if arguments.older_than is not None and not arguments.older_than >= 0:
        raise TrainerError("invalid age", found=str(arguments.older_than), expected="days, 0 or more")
    found = summaries([find_run(word) for word in arguments.runs] or list_runs(RUNS))
    if not found:
        raise TrainerError("no runs here", where=RUNS, hint="`trainer run digits` creates one.")
    over = [run for run in found if run.status not in ALIVE]
    are_runs = arguments.failed or arguments.older_than is not None
    runs = [run.paths for run in over if _is_selected(run, arguments)] if are_runs else []
    checkpoints = [] if are_runs else [(run.paths, step) for run in over for step in _superfluous(run.paths)]
    folders = [paths.root for paths in runs] + [_folder(paths, step) for paths, step in checkpoints]
    size = 0
    for folder in folders:
        held = bytes_below(folder)
        size += held
        print(f"{folder}  {held / 1e6:.1f} MB")
    skipped = "".join(f"; {run.name} is still training" for run in found if run.status in ALIVE)
    if not folders or arguments.dry_run:
        print(f"{len(folders)} to delete, {size / 1e6:.1f} MB{skipped}")
        return 0
    if not is_confirmed(f"Delete these {len(folders)} ({size / 1e6:.1f} MB)?", is_given=arguments.yes):
        print("nothing was deleted")
        return 0
    delete_runs(runs)
    for paths, step in checkpoints:
        _delete_checkpoint(paths, step)
    print(f"deleted {len(folders)}, {size / 1e6:.1f} MB{skipped}")
    return 0


def _is_selected(run: RunSummary, arguments: argparse.Namespace) -> bool:
    import time

    if arguments.failed and run.status not in ("failed", "lost"):
        return False
    if arguments.older_than is None:
        return True
    evidence = run.paths.events if run.paths.events.exists() else run.paths.root
    return time.time() - evidence.stat().st_mtime > arguments.older_than * DAY


def _superfluous(paths: RunPaths) -> list[int]:
    """Steps of the checkpoints that are neither `latest` nor `best`; without `latest`, the last one is kept."""
    from trainer.learner.checkpoints import pointed, steps_in

    steps = steps_in(paths.checkpoints)
    named = {folder.name for name in ("latest", "best") if (folder := pointed(paths.checkpoints, name)) is not None}
    kept = {step for step in steps if _folder(paths, step).name in named}
    if pointed(paths.checkpoints, "latest") is None:
        kept.update(steps[-1:])
    return [step for step in steps if step not in kept]


def _folder(paths: RunPaths, step: int) -> Path:
    from trainer.learner.checkpoints import folder_name

    return paths.checkpoints / folder_name(step)


def _delete_checkpoint(paths: RunPaths, step: int) -> None:
    from trainer.learner.checkpoints import remove_checkpoint
    from trainer.rundir import RunLock, write_error

    lock = RunLock(paths)
    lock.acquire()
    try:
        remove_checkpoint(paths.checkpoints, step)
    except OSError as error:
        raise write_error(error.filename or paths.checkpoints, error) from error
    finally:
        lock.release()

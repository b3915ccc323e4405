"""Summaries of runs, with a check of the heartbeat for runs on other machines."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from trainer.cli.progress_line import ProgressLine
from trainer.rundir import RunPaths, RunSummary, moving_heartbeats, read_lock, summarize


def summaries(runs: Iterable[RunPaths]) -> list[RunSummary]:
    """The summary of each run; a run that looks lost by the clocks is running if its heartbeat changes."""
    found = [summarize(paths) for paths in runs]
    doubtful = [run for run in found if run.status == "lost"
                and (lock := read_lock(run.paths)) is not None and lock.is_in_doubt(time.time())]  # fmt: skip
    if not doubtful:
        return found
    line = ProgressLine()
    line.note(f"waiting for a heartbeat of {', '.join(run.name for run in doubtful)}")
    alive = moving_heartbeats([run.paths.lock for run in doubtful])
    line.clear()
    return [replace(run, status="running") if run.paths.lock in alive else run for run in found]

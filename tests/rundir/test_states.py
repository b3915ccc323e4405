"""The states of a run: one vocabulary for the dashboard, the list of runs, reports and Python."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.tui.synthetic_run import make_folder
from trainer.rundir import (
    ALIVE,
    STATES,
    EndEvent,
    Event,
    EventWriter,
    LogEvent,
    RequestEvent,
    RunLock,
    RunPaths,
    open_run,
    summarize,
)
from trainer.rundir.run import SILENT_AFTER_SECONDS, Liveness


def write(paths: RunPaths, *events: Event) -> None:
    with EventWriter(paths.events, attempt=1, process_start=time.time()) as sink:
        for event in (LogEvent("begins"), *events):
            sink(event)


def statuses(paths: RunPaths) -> set[str]:
    """The run's state as everyone who looks at it finds it."""
    run = Liveness(paths)
    for record in open_run(paths.root).events():
        run.see(record)
    return {run.status, open_run(paths.root).status, summarize(paths).status}


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ((), "running"),
        ((RequestEvent("1", "pause", "received"),), "running"),
        ((RequestEvent("1", "pause", "done"),), "paused"),
        ((RequestEvent("1", "pause", "done"), RequestEvent("2", "resume", "done")), "running"),
        ((RequestEvent("1", "stop", "received"),), "stopping"),
        ((RequestEvent("1", "prune", "received"),), "stopping"),
        ((RequestEvent("1", "stop", "refused"),), "running"),
        ((RequestEvent("1", "stop", "received"), EndEvent("stopped", 0, 7)), "stopped"),
    ],
)
def test_a_run_that_is_heard_of_is_in_the_state_that_was_asked_for(
    tmp_path: Path, events: tuple[Event, ...], status: str
) -> None:
    paths = make_folder(tmp_path / "run")
    with RunLock(paths):
        write(paths, *events)
        assert statuses(paths) == {status}
    assert status in STATES and (status in ALIVE) == (status != "stopped")


def test_a_process_that_lives_and_is_not_heard_of_is_silent(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    with RunLock(paths):
        write(paths, RequestEvent("1", "pause", "done"))
        before = time.time() - SILENT_AFTER_SECONDS - 5
        os.utime(paths.lock, (before, before))
        assert statuses(paths) == {"silent"} <= {*ALIVE}


def test_a_later_attempt_was_not_asked_for_anything(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    write(paths, RequestEvent("1", "stop", "done"))
    with RunLock(paths):
        with EventWriter(paths.events, attempt=2, process_start=time.time()) as sink:
            sink(LogEvent("again"))
        assert statuses(paths) == {"running"}

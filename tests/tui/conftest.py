"""What the dashboard's tests share: runs on disk, a clock that stands still, the text of a screen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for synthetic_run, which is a script too

import synthetic_run
from textual.pilot import Pilot

from trainer.rundir import RunPaths, host_name
from trainer.tui.app import Dashboard
from trainer.tui.feed import Feed

UTF8 = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}


class Clock:
    """A clock that tests set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def failures_end_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dashboard that fails ends its test: Textual keeps the error until the test leaves `run_test`, and a test that
    waits for a text never does.
    """
    pause = Pilot.pause

    async def pause_or_fail(pilot: Pilot[object], delay: float | None = None) -> None:
        await pause(pilot, delay)
        if pilot.app._exception is not None:
            raise pilot.app._exception

    monkeypatch.setattr(Pilot, "pause", pause_or_fail)


@pytest.fixture
def clock() -> Clock:
    """Ten seconds after the start of the synthetic run."""
    return Clock(synthetic_run.START + 10)


@pytest.fixture
def finished(tmp_path: Path) -> RunPaths:
    return synthetic_run.write_run(tmp_path / "digits-7")


@pytest.fixture
def running(tmp_path: Path, clock: Clock) -> RunPaths:
    """A run in its third epoch, whose lock this living process holds."""
    paths = synthetic_run.write_run(tmp_path / "digits-7", epochs=8, finished_epochs=2)
    hold_lock(paths, os.getpid(), clock.now)
    return paths


def hold_lock(paths: RunPaths, pid: int, heartbeat: float) -> None:
    """A lock as a worker with this pid would leave it."""
    paths.lock.write_text(json.dumps({"pid": pid, "host": host_name(), "token": "x"}))
    os.utime(paths.lock, (heartbeat, heartbeat))


def dead_pid() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def dashboard(paths: RunPaths, clock: Clock, **options: Any) -> Dashboard:
    """The app on a run, not yet started."""
    options.setdefault("environment", UTF8)
    feed = Feed(paths.root, clock)
    feed.poll(1.0)
    return Dashboard(feed, **options)


def screen_text(app: Dashboard) -> str:
    """What stands on the terminal."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


async def settle(app: Dashboard, pilot: Any) -> str:
    """Let the app read and draw what is there now; the text of the screen."""
    app._after_first_frame()
    await pilot.pause()
    app._drawn_at = 0.0
    app.advance()
    await pilot.pause()
    return screen_text(app)


async def until(told: str, app: Dashboard, pilot: Any) -> str:
    """The text of the screen once it says something; files are read in boxed time."""
    for _ in range(200):
        text = await settle(app, pilot)
        if told in text:
            return text
    raise AssertionError(f"{told!r} never came:\n{text}")

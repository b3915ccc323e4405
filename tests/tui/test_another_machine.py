"""A run on another machine, whose clock is its own."""

from __future__ import annotations

import json
import os

import synthetic_run
from conftest import Clock, dashboard, settle

from trainer.rundir import LogEvent, RunEvent, RunPaths


async def test_a_run_on_a_machine_whose_clock_is_behind_is_shown_running(running: RunPaths, clock: Clock) -> None:
    """Its records and its heartbeat are seven minutes old when they come."""

    def beat(time: float) -> None:
        running.lock.write_text(json.dumps({"pid": 7, "host": "elsewhere"}))
        os.utime(running.lock, (time, time))

    synthetic_run.append(running, RunEvent("digits-7", "digits", "0.1.0", 7, "elsewhere", "cpu", 2), 9.0)
    app = dashboard(running, clock)
    clock.now += 420
    beat(clock.now - 420)
    async with app.run_test(size=(160, 50)) as pilot:
        assert "? SILENT" in await settle(app, pilot), "nobody knows yet"
        clock.now += 2
        beat(clock.now - 420)
        synthetic_run.append(running, LogEvent("on we go"), clock.now - 420 - synthetic_run.START)
        text = await settle(app, pilot)
        (phase,) = (line for line in text.splitlines() if "● train" in line)
    seconds = float(phase.split("│")[1].split()[-2])
    assert "● RUNNING" in text and 9 < seconds < 13, phase

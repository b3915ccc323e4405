"""A worker on another machine, whose clock is its own, and whose heartbeat comes late over a shared file system."""

from __future__ import annotations

import json
import os

import pytest
import synthetic_run
from conftest import Clock, dashboard, settle

from trainer.rundir import LockState, LogEvent, Record, RunEvent, RunPaths, host_name
from trainer.tui.pulse import Pulse

NOW = 1_000_000.0
MINUTES = (-7 * 60.0, 0.0, 7 * 60.0)


def remote(heartbeat: float) -> LockState:
    """A lock as it is read here, judged by the clocks of both machines."""
    return LockState(7, "elsewhere", heartbeat, alive=NOW - heartbeat < 60)


@pytest.mark.parametrize("skew", MINUTES)
def test_a_heartbeat_that_moves_is_alive_whatever_its_clock_says(skew: float) -> None:
    pulse = Pulse()
    for second in range(40):
        felt = pulse.feel(remote(NOW + skew + second // 2 * 2), NOW + second)
        assert felt is not None and felt.alive
    assert NOW + 39 - felt.heartbeat <= 2, "when it was seen to move, by the clock here"


@pytest.mark.parametrize("skew", MINUTES)
def test_a_heartbeat_that_stands_still_is_dead_after_a_minute_here(skew: float) -> None:
    pulse = Pulse()
    pulse.feel(remote(NOW + skew - 2), NOW - 2)
    states = [pulse.feel(remote(NOW + skew), NOW + second) for second in range(70)]
    assert [state is not None and state.alive for state in states] == [True] * 60 + [False] * 10


@pytest.mark.parametrize(("age", "patience"), [(86_400.0, 10), (-86_400.0, 10), (5.0, 55)])
def test_an_old_heartbeat_is_watched_before_it_is_called_dead(age: float, patience: int) -> None:
    pulse = Pulse()
    states = [pulse.feel(remote(NOW - age), NOW + second) for second in range(70)]
    assert [state is not None and state.alive for state in states] == [True] * patience + [False] * (70 - patience)


def test_on_this_machine_the_system_says_who_lives() -> None:
    here = LockState(7, host_name(), NOW - 3600, alive=True)
    assert Pulse().feel(here, NOW) is here and Pulse().feel(None, NOW) is None


def test_the_workers_clock_is_told_by_its_freshest_record() -> None:
    pulse = Pulse()
    assert pulse.clock_of("elsewhere", NOW) == NOW
    for late in (4.0, 0.5, 30.0):  # attributes of a shared file system are seconds old
        pulse.hear(Record(LogEvent("here"), NOW - 420 - late, 0.0, 1), NOW)
    assert pulse.clock_of("elsewhere", NOW + 10) == NOW - 420.5 + 10
    assert pulse.clock_of(host_name(), NOW) == NOW


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

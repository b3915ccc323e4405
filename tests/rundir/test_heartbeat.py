"""A worker on another machine, whose clock is its own, and whose heartbeat comes late over a shared file system."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.rundir import HeartbeatMonitor, LockState, LogEvent, Record, RunPaths, host_name, moving_heartbeats
from trainer.rundir.heartbeat import WATCHED_SECONDS

NOW = 1_000_000.0
MINUTES = (-7 * 60.0, 0.0, 7 * 60.0)


def remote(heartbeat: float) -> LockState:
    """A lock as it is read here, judged by the clocks of both machines."""
    return LockState(7, "elsewhere", heartbeat, alive=NOW - heartbeat < 60)


@pytest.mark.parametrize("skew", MINUTES)
def test_a_heartbeat_that_moves_is_alive_whatever_its_clock_says(skew: float) -> None:
    monitor = HeartbeatMonitor()
    for second in range(40):
        checked = monitor.check(remote(NOW + skew + second // 2 * 2), NOW + second)
        assert checked is not None and checked.alive
    assert NOW + 39 - checked.heartbeat <= 2, "when it was seen to move, by the clock here"


@pytest.mark.parametrize("skew", MINUTES)
def test_a_heartbeat_that_stands_still_is_dead_after_a_minute_here(skew: float) -> None:
    monitor = HeartbeatMonitor()
    monitor.check(remote(NOW + skew - 2), NOW - 2)
    states = [monitor.check(remote(NOW + skew), NOW + second) for second in range(70)]
    assert [state is not None and state.alive for state in states] == [True] * 60 + [False] * 10


@pytest.mark.parametrize(("age", "patience"), [(86_400.0, 8), (-86_400.0, 8), (5.0, 55)])
def test_an_old_heartbeat_is_watched_before_it_is_called_dead(age: float, patience: int) -> None:
    monitor = HeartbeatMonitor()
    states = [monitor.check(remote(NOW - age), NOW + second) for second in range(70)]
    assert [state is not None and state.alive for state in states] == [True] * patience + [False] * (70 - patience)


def test_on_this_machine_the_system_says_who_lives() -> None:
    here = LockState(7, host_name(), NOW - 3600, alive=True, is_within_sight=True)
    assert HeartbeatMonitor().check(here, NOW) is here and HeartbeatMonitor().check(None, NOW) is None


def test_the_workers_clock_is_told_by_its_freshest_record() -> None:
    monitor = HeartbeatMonitor()
    assert monitor.clock_of("elsewhere", NOW) == NOW
    for late in (4.0, 0.5, 30.0):  # attributes of a shared file system are seconds old
        monitor.receive(Record(LogEvent("here"), NOW - 420 - late, 0.0, 1), NOW)
    assert monitor.clock_of("elsewhere", NOW + 10) == NOW - 420.5 + 10
    assert monitor.clock_of(host_name(), NOW) == NOW


def test_who_does_not_trust_calls_an_old_heartbeat_alive_once_it_has_moved() -> None:
    monitor = HeartbeatMonitor(is_trusting=False)
    states = [monitor.check(remote(NOW - 420 + max(0, second - 4)), NOW + second) for second in range(8)]
    assert [state is not None and state.alive for state in states] == [False] * 5 + [True] * 3


def test_an_owner_in_another_container_of_this_name_is_told_by_its_heartbeat() -> None:
    monitor, old = HeartbeatMonitor(is_trusting=False), LockState(7, host_name(), NOW - 420, alive=False)
    assert not getattr(monitor.check(old, NOW), "alive", None)
    moved = monitor.check(LockState(7, host_name(), NOW - 418, alive=False), NOW + 2)
    assert moved is not None and moved.alive


@pytest.fixture
def locks(tmp_path: Path) -> list[Path]:
    """Locks of three owners elsewhere, last heard of seven minutes ago by the clock here."""
    paths = [RunPaths(tmp_path / name).lock for name in "abc"]
    for path in paths:
        path.parent.mkdir()
        path.write_text(json.dumps({"pid": 7, "host": "elsewhere"}))
        os.utime(path, (NOW, NOW))
    return paths


def test_of_several_that_are_watched_at_once_those_whose_heartbeat_moves_are_heard_of(locks: list[Path]) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            os.utime(locks[1], (NOW + 2, NOW + 2))
            locks[2].unlink()

    assert moving_heartbeats([*locks, locks[0].with_name("missing")], sleep) == {locks[1]}
    assert sum(waits) == WATCHED_SECONDS


def test_nobody_waits_once_all_are_heard_of_or_gone(locks: list[Path]) -> None:
    waits: list[float] = []

    def sleep(change: Callable[[], object]) -> Callable[[float], None]:
        def wait(seconds: float) -> None:
            waits.append(seconds)
            change()

        return wait

    assert moving_heartbeats(locks[:1], sleep(lambda: os.utime(locks[0], (NOW + 2, NOW + 2)))) == {locks[0]}
    assert moving_heartbeats(locks[1:2], sleep(locks[1].unlink)) == set()
    assert moving_heartbeats([], sleep(lambda: None)) == set()
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("state", "is_in_doubt"),
    [
        (LockState(7, "elsewhere", NOW - 5, alive=True), False),
        (LockState(7, "elsewhere", NOW - 420, alive=False), True),
        (LockState(7, "elsewhere", NOW + 420, alive=False), True),
        (LockState(7, "elsewhere", NOW - 86_400, alive=False), False),
        (LockState(7, host_name(), NOW - 420, alive=False, is_within_sight=True), False),
        (LockState(0, "unknown", NOW - 420, alive=False), False),
    ],
)
def test_in_doubt_is_who_looks_gone_by_clocks_that_may_be_apart(state: LockState, is_in_doubt: bool) -> None:
    assert state.is_in_doubt(NOW) == is_in_doubt

"""The lock: one owner at a time, a dead one replaced, a heartbeat that needs no disk space."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from trainer import TrainerError
from trainer.rundir import RunLock, RunPaths, host_name, read_lock
from trainer.rundir.heartbeat import GONE_AFTER_SECONDS, WATCHED_SECONDS
from trainer.rundir.lock import _remove_dead
from trainer.rundir.processes import process_started


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def write_lock(paths: RunPaths, pid: int, host: str, started: int | None = None) -> None:
    paths.lock.write_text(json.dumps({"pid": pid, "host": host, "started": started}))


def test_a_second_owner_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    found = rf"pid {os.getpid()} on {host_name()}, since \d+-\d\d-\d\d \d\d:\d\d:\d\d, last heartbeat \d+ s ago"
    with RunLock(paths), pytest.raises(TrainerError, match=found):
        RunLock(paths).acquire()
    assert read_lock(paths) is None
    RunLock(paths).acquire()


def test_the_owner_is_shown_as_alive_with_its_heartbeat(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    lock = RunLock(paths)
    lock.acquire()
    os.utime(paths.lock, (1000.0, 1000.0))
    state = read_lock(paths)
    assert state is not None and (state.pid, state.host, state.alive, state.heartbeat) == (
        os.getpid(), host_name(), True, 1000.0,
    )  # fmt: skip
    assert lock.heartbeat()
    state = read_lock(paths)
    assert state is not None and abs(state.heartbeat - time.time()) < 60


@pytest.mark.skipif(os.name != "posix", reason="pids are asked after on POSIX")
def test_a_dead_owner_on_this_host_is_replaced(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_lock(paths, dead_pid(), host_name())
    state = read_lock(paths)
    assert state is not None and not state.alive
    RunLock(paths).acquire()
    state = read_lock(paths)
    assert state is not None and state.pid == os.getpid()
    assert [path.name for path in tmp_path.iterdir()] == ["run.lock"]


@pytest.mark.skipif(process_started(os.getpid()) is None, reason="the system does not tell when a process started")
def test_a_pid_used_again_is_not_taken_for_the_owner(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_lock(paths, os.getpid(), host_name(), started=1)
    state = read_lock(paths)
    assert state is not None and not state.alive


def test_an_owner_elsewhere_lives_as_long_as_its_heartbeat(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_lock(paths, 1, "another-host")
    with pytest.raises(TrainerError, match="another-host"):
        RunLock(paths).acquire()
    long_ago = time.time() - 2 * GONE_AFTER_SECONDS
    os.utime(paths.lock, (long_ago, long_ago))
    waits, said = list[float](), list[str]()
    RunLock(paths, notice=said.append, sleep=waits.append).acquire()
    assert sum(waits) == WATCHED_SECONDS and "another-host" in said[0]


def test_an_owner_elsewhere_whose_clock_is_behind_is_not_taken_for_dead(tmp_path: Path) -> None:
    """Its heartbeat looks old, but it moves."""
    paths = RunPaths(tmp_path)
    write_lock(paths, 1, "another-host")
    behind = time.time() - 10 * GONE_AFTER_SECONDS
    os.utime(paths.lock, (behind, behind))
    with pytest.raises(TrainerError, match="another-host"):
        RunLock(paths, sleep=lambda seconds: os.utime(paths.lock, (behind + 2, behind + 2))).acquire()


def test_an_owner_elsewhere_that_ends_while_it_is_watched_is_followed(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_lock(paths, 1, "another-host")
    os.utime(paths.lock, (1000.0, 1000.0))
    RunLock(paths, sleep=lambda seconds: paths.lock.unlink(missing_ok=True)).acquire()
    state = read_lock(paths)
    assert state is not None and state.pid == os.getpid()


@pytest.mark.skipif(process_started(os.getpid()) is None, reason="the system has no namespaces of pids")
def test_an_owner_in_another_container_of_this_name_lives_as_long_as_its_heartbeat(tmp_path: Path) -> None:
    """Its pid means nothing here: ours is another process, or none."""
    paths = RunPaths(tmp_path)
    paths.lock.write_text(json.dumps({"pid": dead_pid(), "host": host_name(), "namespace": "pid:[1]", "started": 1}))
    state = read_lock(paths)
    assert state is not None and state.alive
    os.utime(paths.lock, (1000.0, 1000.0))
    state = read_lock(paths)
    assert state is not None and not state.alive


ROUNDS, RACERS = 60, 4


def race(paths: RunPaths, barrier: Barrier, won: Any, index: int, stale: str) -> None:
    """Each round all see the same dead owner at once, and try to take its place."""
    for _ in range(ROUNDS):
        if index == 0:
            paths.lock.write_text(stale)
        barrier.wait()
        lock = RunLock(paths)
        try:
            lock.acquire()
        except TrainerError:
            pass
        else:
            with won.get_lock():
                won.value += 1
            assert lock.heartbeat()
        barrier.wait()
        assert not index or paths.lock.exists()
        barrier.wait()


@pytest.mark.skipif(os.name != "posix", reason="processes are forked")
def test_of_several_that_find_a_dead_owner_at_once_one_takes_its_place(tmp_path: Path) -> None:
    paths, context = RunPaths(tmp_path), multiprocessing.get_context("fork")
    stale = json.dumps({"pid": dead_pid(), "host": host_name(), "started": 1})
    barrier, won = context.Barrier(RACERS, timeout=60), context.Value("i", 0)
    racers = [context.Process(target=race, args=(paths, barrier, won, index, stale)) for index in range(RACERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * RACERS and won.value == ROUNDS
    assert [path.name for path in tmp_path.iterdir()] == ["run.lock"]


def test_a_lock_that_cannot_be_read_counts_as_dead(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    paths.lock.write_text("{")
    state = read_lock(paths)
    assert state is not None and not state.alive
    RunLock(paths).acquire()


def test_a_lock_that_was_taken_over_is_neither_kept_alive_nor_released(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    lock = RunLock(paths)
    lock.acquire()
    write_lock(paths, 1, "another-host")
    assert not lock.heartbeat()
    lock.release()
    assert paths.lock.exists()


def test_who_comes_late_to_a_dead_owners_lock_never_touches_the_new_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for an instant: a third might take the run then."""
    paths = RunPaths(tmp_path)
    stale = json.dumps({"pid": dead_pid(), "host": host_name()})
    new = RunLock(paths)
    new.acquire()

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("the new owner's lock was moved")

    for module, name in ((os, "rename"), (os, "replace"), (os, "unlink"), (Path, "unlink")):
        monkeypatch.setattr(module, name, refuse)
    _remove_dead(paths.lock, stale)
    assert new.heartbeat()


def test_an_owner_may_ask_for_its_own_lock_again(tmp_path: Path) -> None:
    lock = RunLock(RunPaths(tmp_path))
    lock.acquire()
    with lock:
        assert lock.heartbeat()
    assert not lock.path.exists()

"""The lock: one owner at a time, a dead one replaced, a heartbeat that needs no disk space."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainer import TrainerError
from trainer.rundir import RunLock, RunPaths, host_name, read_lock
from trainer.rundir.lock import SILENT_AFTER_SECONDS
from trainer.rundir.processes import process_started


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def write_lock(paths: RunPaths, pid: int, host: str, started: int | None = None) -> None:
    paths.lock.write_text(json.dumps({"pid": pid, "host": host, "started": started}))


def test_a_second_owner_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    with RunLock(paths), pytest.raises(TrainerError, match=f"pid {os.getpid()} on {host_name()}"):
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
    long_ago = time.time() - 2 * SILENT_AFTER_SECONDS
    os.utime(paths.lock, (long_ago, long_ago))
    RunLock(paths).acquire()


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

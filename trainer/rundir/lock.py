"""`run.lock`: the process that trains a run, and whether it is alive.

The file contains the owner's pid, host and a token. Its modification time is the heartbeat, which needs no space on a
full disk and can't damage the contents.

    the owner's process can be checked (same host, boot and pid namespace)    it is alive while that process is
    otherwise                                                                 it is alive while its heartbeat is recent

An apparently old heartbeat is watched before the lock is taken over: see `heartbeat`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from trainer import TrainerError
from trainer.rundir.files import write_error
from trainer.rundir.heartbeat import WATCHED_SECONDS, LockState, looks_fresh, moving_heartbeats
from trainer.rundir.layout import RunPaths
from trainer.rundir.processes import host_name, pid_namespace, process_is_alive, process_started

if sys.platform != "win32":
    import fcntl


class RunLock:
    """Held by the process that trains a run: `acquire`, `heartbeat` every few seconds, `release`.

    Args:
        notice: receives the reason if `acquire` takes seconds.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        paths: RunPaths,
        *,
        notice: Callable[[str], object] = lambda _: None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.path = paths.lock
        self._notice, self._sleep = notice, sleep
        pid = os.getpid()
        owner = {"pid": pid, "host": host_name(), "namespace": pid_namespace(), "started": process_started(pid)}
        self._contents = json.dumps({**owner, "since": round(time.time(), 3), "token": os.urandom(8).hex()})

    def acquire(self) -> None:
        """Acquires the lock, unless already held; takes over the lock of a dead owner.

        Raises:
            TrainerError: another process is training this run, or the directory can't be written.
        """
        while not self._create():
            contents = _contents(self.path)
            if contents == self._contents:
                return
            if contents is None:
                continue  # released between two attempts
            owner = _state(self.path, contents)
            if owner is not None and (owner.alive or self._is_heartbeat_moving(owner)):
                raise TrainerError(
                    "another process is training this run",
                    where=str(self.path.parent),
                    found=str(owner),
                    hint="Watch it with `trainer watch`, or stop it first with `trainer stop`.",
                )
            _remove_dead(self.path, contents)

    def heartbeat(self) -> bool:
        """Updates the heartbeat; returns False if the lock is no longer held.

        Raises:
            OSError: the heartbeat can't be written (a disk that has become read-only).
        """
        if _contents(self.path) != self._contents:
            return False
        os.utime(self.path)
        return True

    def release(self) -> None:
        """Releases the lock, if it is still held."""
        if _contents(self.path) == self._contents:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(
            OSError
        ):  # a lock file that can't be deleted belongs to a dead process from now on, and blocks no other process
            self.release()

    def _is_heartbeat_moving(self, owner: LockState) -> bool:
        """Whether the owner's heartbeat changes while it is watched; false if its process can be checked directly.

        Its clock may be behind that of this machine.
        """
        if owner.is_within_sight or not owner.pid:
            return False
        self._notice(f"{self.path}: of {owner}; waiting {WATCHED_SECONDS:.0f} s for a heartbeat")
        return bool(moving_heartbeats([self.path], self._sleep)) and _contents(self.path) is not None

    def _create(self) -> bool:
        """Creates the lock file with its contents atomically: written to another file, then linked, which fails if it
        exists.
        """
        aside = self.path.with_name(f".run.lock-{os.getpid()}")
        try:
            aside.write_text(self._contents, encoding="utf-8")
            try:
                os.link(aside, self.path)
            except FileExistsError:
                return False
            finally:
                aside.unlink(missing_ok=True)
        except OSError as error:
            raise write_error(self.path, error) from error
        return True


def read_lock(paths: RunPaths) -> LockState | None:
    """The owner of the run's lock, or None."""
    contents = _contents(paths.lock)
    return None if contents is None else _state(paths.lock, contents)


def remove_dead_lock(paths: RunPaths) -> None:
    """Removes the lock of a process of this machine that ended without releasing it."""
    contents = _contents(paths.lock)
    owner = None if contents is None else _state(paths.lock, contents)
    if contents is not None and owner is not None and owner.is_within_sight and not owner.alive:
        with suppress(OSError):
            _remove_dead(paths.lock, contents)


def _remove_dead(path: Path, contents: str) -> None:
    """Removes a dead owner's file, unless another process has done so.

    The process that holds the system's lock on this file may remove it.
    """
    with suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        if sys.platform != "win32":
            with suppress(OSError):  # a file system without locks: two processes at the same instant may race
                fcntl.flock(file, fcntl.LOCK_EX)
        if file.read() == contents and os.fstat(file.fileno()).st_ino == path.stat().st_ino:
            path.unlink()


def _contents(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")  # a damaged one has a dead owner
    except FileNotFoundError:
        return None


def _state(path: Path, contents: str) -> LockState | None:
    try:
        heartbeat = path.stat().st_mtime
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(contents)
        pid, host, started = int(fields["pid"]), str(fields["host"]), fields.get("started")
        namespace, since = fields.get("namespace"), fields.get("since")
    except (ValueError, KeyError, TypeError):
        return LockState(0, "unknown", heartbeat, alive=False)
    is_within_sight = os.name == "posix" and host == host_name() and namespace in (None, pid_namespace())
    alive = process_is_alive(pid, started) if is_within_sight else looks_fresh(heartbeat, time.time())
    return LockState(pid, host, heartbeat, alive, since, is_within_sight)

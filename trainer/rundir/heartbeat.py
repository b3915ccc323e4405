"""Detects whether a worker on another machine is alive, and the difference of its clock, from changes of its heartbeat.

The clocks of two machines may be minutes apart. On this machine the system says whether a process is alive, and
there is only one clock. All callers follow one rule:

    the process can be checked             it is alive if the system says so
    its heartbeat has changed              it is alive until the heartbeat stops for GONE_AFTER_SECONDS
    otherwise                              the two clocks decide; an old heartbeat is watched for WATCHED_SECONDS first

Programs that follow a run (a dashboard, `trainer watch`) keep a `HeartbeatMonitor`; single checks (`trainer runs`, a
new owner) may wait for `moving_heartbeats`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trainer.rundir.events import Record
from trainer.rundir.processes import host_name

GONE_AFTER_SECONDS = 60.0
"""A process on another machine is dead if its heartbeat stops for this long. File attributes on NFS may be this old."""

WATCHED_SECONDS, LOOKS = 8.0, 16
"""Seconds and number of checks for an apparently old heartbeat: a worker writes one every two seconds, and another
machine may see it some seconds later.
"""

MOST_APART_SECONDS = 3600.0
"""Maximum clock difference that is considered if the check has to wait."""


@dataclass(frozen=True)
class LockState:
    """The owner of a run.

    Attributes:
        heartbeat: time of the last heartbeat; `since`: start of the ownership, in seconds since 1970.
        is_within_sight: whether its process can be checked from here; the heartbeat is then not needed.
    """

    pid: int
    host: str
    heartbeat: float
    alive: bool
    since: float | None = None
    is_within_sight: bool = False

    def __str__(self) -> str:
        since = (
            "" if self.since is None else f", since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(self.since))}"
        )
        return (
            f"pid {self.pid} on {self.host}{since}, last heartbeat {max(0.0, time.time() - self.heartbeat):.0f} s ago"
        )

    def is_in_doubt(self, now: float) -> bool:
        """Whether it seems dead only by two clocks that may differ; `now` is in seconds since 1970 on this machine."""
        away = abs(now - self.heartbeat)
        return bool(self.pid) and not self.is_within_sight and GONE_AFTER_SECONDS <= away < MOST_APART_SECONDS


def looks_fresh(heartbeat: float, now: float) -> bool:
    """Whether a heartbeat is recent if the two clocks agree."""
    return abs(now - heartbeat) < GONE_AFTER_SECONDS


def moving_heartbeats(locks: Iterable[Path], sleep: Callable[[float], object] = time.sleep) -> set[Path]:
    """The lock files whose heartbeat changes while they are watched for up to WATCHED_SECONDS.

    The removal of a file does not count as a change.
    """
    before = {lock: beat for lock in locks if (beat := _heartbeat(lock)) is not None}
    moving: set[Path] = set()
    for _ in range(LOOKS):
        if not before.keys() - moving:
            break
        sleep(WATCHED_SECONDS / LOOKS)
        moving |= {lock for lock, beat in before.items() if _heartbeat(lock) not in (None, beat)}
        before = {lock: beat for lock, beat in before.items() if _heartbeat(lock) is not None}
    return moving


def _heartbeat(lock: Path) -> float | None:
    with suppress(OSError):
        return lock.stat().st_mtime
    return None


class HeartbeatMonitor:
    """The heartbeat of a run, observed from this machine.

    Args:
        is_trusting: whether an old heartbeat counts as alive until it was watched long enough; if false, only after it
            has changed.
    """

    def __init__(self, *, is_trusting: bool = True) -> None:
        self._is_trusting = is_trusting
        self._owner: tuple[int, str] | None = None
        self._beat = 0.0
        self._first = self._moved = -math.inf
        self._behind = math.inf

    def check(self, lock: LockState | None, now: float) -> LockState | None:
        """The state of a lock with the observations so far; `now` is in seconds since 1970 on this machine."""
        if lock is None or lock.is_within_sight or not lock.pid:
            return lock
        if self._owner != (lock.pid, lock.host):
            self._owner, self._beat, self._first, self._moved = (lock.pid, lock.host), lock.heartbeat, now, -math.inf
        elif lock.heartbeat != self._beat:
            self._beat, self._moved = lock.heartbeat, now
        if self._moved > -math.inf:
            return replace(lock, heartbeat=self._moved, alive=now - self._moved < GONE_AFTER_SECONDS)
        patience = GONE_AFTER_SECONDS if looks_fresh(lock.heartbeat, now) else WATCHED_SECONDS * self._is_trusting
        return replace(lock, heartbeat=min(now, lock.heartbeat), alive=now - self._first < patience)

    def receive(self, record: Record, now: float) -> None:
        """Adds a record that has just arrived, and thus was just written, whatever time it has."""
        self._behind = min(self._behind, now - record.time)

    def clock_of(self, host: str, now: float) -> float:
        """The current time on the clock of the worker's machine, in seconds since 1970."""
        return now - self._behind if host and host != host_name() and self._behind < math.inf else now

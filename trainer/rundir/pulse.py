"""Whether a worker on another machine lives, and what its clock says: told by what moves, not by two clocks' agreement.

The clocks of two machines may be minutes apart. On this machine the system itself says whether a process lives, and
there is one clock. The one rule for all who ask:

    the process can be looked for          it lives as long as the system says so
    its heartbeat was seen to move         it lives until that has stood still for GONE_AFTER_SECONDS
    it was not (yet)                       by the two clocks; an old one is watched for WATCHED_SECONDS first

Who follows a run (a dashboard, `trainer watch`) keeps a `Pulse`; who looks once (`trainer runs`, an owner to be) may
wait for `heard_of`.
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
"""A heartbeat on another machine that stood still for this long is no more. Attributes on NFS may be that old."""

WATCHED_SECONDS, LOOKS = 8.0, 16
"""How long, and in how many looks, a heartbeat that looks old is watched: a worker writes one every two seconds, which
another machine may see some seconds later."""

MOST_APART_SECONDS = 3600.0
"""Clocks that are further apart than this are not thought of where a look costs everybody a wait."""


@dataclass(frozen=True)
class LockState:
    """The owner of a run.

    Attributes:
        heartbeat: when it was last heard of, and `since`: when it has the run, in seconds since 1970.
        is_within_sight: its process can be looked for from here, so that the heartbeat does not matter.
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
        return f"pid {self.pid} on {self.host}{since}, last heard of {max(0.0, time.time() - self.heartbeat):.0f} s ago"

    def is_in_doubt(self, now: float) -> bool:
        """Whether it looks gone by two clocks that may be apart; `now` in seconds since 1970, here."""
        away = abs(now - self.heartbeat)
        return bool(self.pid) and not self.is_within_sight and GONE_AFTER_SECONDS <= away < MOST_APART_SECONDS


def looks_fresh(heartbeat: float, now: float) -> bool:
    """Whether a heartbeat is young if the two clocks agree."""
    return abs(now - heartbeat) < GONE_AFTER_SECONDS


def heard_of(locks: Iterable[Path], sleep: Callable[[float], object] = time.sleep) -> set[Path]:
    """Which of some lock files' heartbeats move while they are watched for up to WATCHED_SECONDS.

    One that goes away meanwhile is not heard of.
    """
    before = {lock: beat for lock in locks if (beat := _heartbeat(lock)) is not None}
    heard: set[Path] = set()
    for _ in range(LOOKS):
        if not before.keys() - heard:
            break
        sleep(WATCHED_SECONDS / LOOKS)
        heard |= {lock for lock, beat in before.items() if _heartbeat(lock) not in (None, beat)}
        before = {lock: beat for lock, beat in before.items() if _heartbeat(lock) is not None}
    return heard


def _heartbeat(lock: Path) -> float | None:
    with suppress(OSError):
        return lock.stat().st_mtime
    return None


class Pulse:
    """The heartbeat of a run, as it is seen to move from here.

    Args:
        is_trusting: an old heartbeat counts as alive while it is first watched, else only once it has moved.
    """

    def __init__(self, *, is_trusting: bool = True) -> None:
        self._is_trusting = is_trusting
        self._owner: tuple[int, str] | None = None
        self._beat = 0.0
        self._first = self._moved = -math.inf
        self._behind = math.inf

    def feel(self, lock: LockState | None, now: float) -> LockState | None:
        """The state of a lock with what was seen of it so far; `now` in seconds since 1970, here."""
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

    def hear(self, record: Record, now: float) -> None:
        """Take in a record that has just come: it was written a moment ago, whatever its clock says."""
        self._behind = min(self._behind, now - record.time)

    def clock_of(self, host: str, now: float) -> float:
        """What the clock on the worker's machine says, in seconds since 1970."""
        return now - self._behind if host and host != host_name() and self._behind < math.inf else now

"""Whether a worker on another machine lives, and what its clock says: told by what moves, not by two clocks' agreement.

The clocks of two machines may be minutes apart. On this machine the system itself says whether a process lives, and
there is one clock.
"""

from __future__ import annotations

import math
from dataclasses import replace

from trainer.rundir import LockState, Record, host_name

GONE_AFTER_SECONDS = 60.0
"""A heartbeat on another machine that stood still for this long is no more. Attributes on NFS may be that old."""

FIRST_LOOK_SECONDS = 10.0
"""How long a heartbeat that looks old is watched before it counts as old: a worker writes one every two seconds."""


class Pulse:
    """The heartbeat of a run, as it is seen to move from here."""

    def __init__(self) -> None:
        self._owner: tuple[int, str] | None = None
        self._beat = 0.0
        self._first = self._moved = -math.inf
        self._behind = math.inf

    def feel(self, lock: LockState | None, now: float) -> LockState | None:
        """The state of a lock with what was seen of it so far; `now` in seconds since 1970, here."""
        if lock is None or lock.host == host_name():
            return lock
        if self._owner != (lock.pid, lock.host):
            self._owner, self._beat, self._first, self._moved = (lock.pid, lock.host), lock.heartbeat, now, -math.inf
        elif lock.heartbeat != self._beat:
            self._beat, self._moved = lock.heartbeat, now
        if self._moved > -math.inf:
            return replace(lock, heartbeat=self._moved, alive=now - self._moved < GONE_AFTER_SECONDS)
        looks_fresh = abs(now - lock.heartbeat) < GONE_AFTER_SECONDS
        patience = GONE_AFTER_SECONDS if looks_fresh else FIRST_LOOK_SECONDS
        return replace(lock, heartbeat=min(now, lock.heartbeat), alive=now - self._first < patience)

    def hear(self, record: Record, now: float) -> None:
        """Take in a record that has just come: it was written a moment ago, whatever its clock says."""
        self._behind = min(self._behind, now - record.time)

    def clock_of(self, host: str, now: float) -> float:
        """What the clock on the worker's machine says, in seconds since 1970."""
        return now - self._behind if host and host != host_name() and self._behind < math.inf else now

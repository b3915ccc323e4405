"""The processor time that the helper may use: a share of wall time, and half of the idle time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from trainer.engine.targets.cpu.topology import available_processors

IDLE_SHARE = 0.5
"""Usable share of idle processor time. The helper has the lowest priority, so any other process preempts it at once."""

READ_SECONDS = 0.25
"""Seconds between readings of the idle time: the system counts in hundredths of a second, and a reading takes 0.05 ms.
"""


def idle_seconds() -> float:
    """Idle seconds of all processors so far; 0 if unknown, or if this process may not use all processors."""
    if available_processors() < (os.cpu_count() or 1):
        return 0.0
    try:
        with Path("/proc/stat").open("rb") as file:
            fields = file.readline().split()
    except OSError:
        return 0.0
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")  # idle, and idle while waiting for I/O


class ProcessorBudget:
    """The processor time that the helper may use, counted from the creation of this object."""

    def __init__(self, share: float, idle: Callable[[], float], now: Callable[[], float] = time.monotonic) -> None:
        self._share, self._idle, self._now = share, idle, now
        self._began = self._read_at = now()
        self._idle_at_first = self._idle_now = idle()

    def seconds(self) -> float:
        """The budget so far, in seconds."""
        now = self._now()
        if now - self._read_at >= READ_SECONDS:
            self._read_at, self._idle_now = now, self._idle()
        return self._share * (now - self._began) + IDLE_SHARE * max(0.0, self._idle_now - self._idle_at_first)

"""What the helper may use: a share of wall time, and half of what the processors idle."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from trainer.engine.targets.cpu.pool import available_threads

IDLE_SHARE = 0.5
"""Of what nobody uses. It runs below everybody else, so it is at once out of the way of who comes."""

LOOK_SECONDS = 0.25
"""The system counts processor time in hundredths of a second, and asking it takes 0.05 ms."""


def idle_seconds() -> float:
    """What all processors have idled so far; 0 where unknown, or where they are not all for this process."""
    if available_threads() < (os.cpu_count() or 1):
        return 0.0
    try:
        with Path("/proc/stat").open("rb") as file:
            fields = file.readline().split()
    except OSError:
        return 0.0
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")  # nothing to do, and waiting for a disk


class Allowance:
    """Processor time that the helper may have used so far, from when this is made."""

    def __init__(self, share: float, idle: Callable[[], float], now: Callable[[], float] = time.monotonic) -> None:
        self._share, self._idle, self._now = share, idle, now
        self._began = self._looked = now()
        self._idle_at_first = self._idle_now = idle()

    def seconds(self) -> float:
        """The allowance by now."""
        now = self._now()
        if now - self._looked >= LOOK_SECONDS:
            self._looked, self._idle_now = now, self._idle()
        return self._share * (now - self._began) + IDLE_SHARE * max(0.0, self._idle_now - self._idle_at_first)

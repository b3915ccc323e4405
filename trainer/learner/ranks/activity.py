"""Detects whether this process is active: it computes, waits for a disk, or waits for a child process that does."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

BUSY_SHARE = 0.05
"""A process that uses a smaller fraction of a core computes nothing; threads that monitor the run use less."""

_BUSY_STATES = frozenset("RD")
"""The states of a thread that runs or could run (the machine is busy), or waits for a disk; see proc(5)."""


class Activity:
    """The activity of this process and its child processes between two calls.

    A slow process (a large step, a compilation, a busy machine, a slow disk) is active; a process that waits for a
    lock, a network or a GPU is not. Thread states are read only on Linux.
    """

    def __init__(self) -> None:
        self._time, self._seconds = time.monotonic(), time.process_time()
        self._children: dict[int, float] = {}

    def has_any(self) -> bool:
        """Whether there was activity since the last call, except that of the calling thread."""
        now, seconds = time.monotonic(), time.process_time() - time.thread_time()
        share = (seconds - self._seconds) / max(now - self._time, 1e-9)
        most = BUSY_SHARE * (now - self._time)
        self._time, self._seconds = now, seconds
        return share >= BUSY_SHARE or _has_busy_thread() or self._has_busy_child(most)

    def _has_busy_child(self, most: float) -> bool:
        """Whether a child process, such as a data-loading worker, runs, waits for a disk, or used `most` seconds of
        processor time.
        """
        import psutil

        before, self._children, is_busy = self._children, {}, False
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error), child.oneshot():  # it may just have ended
                times = child.cpu_times()
                self._children[child.pid] = seconds = times.user + times.system
                is_busy |= child.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
                is_busy |= seconds - before.get(child.pid, 0.0) >= most
        return is_busy


def _has_busy_thread() -> bool:
    own = str(threading.get_native_id())
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:  # not Linux
        return False
    for thread in threads:
        with suppress(OSError):  # it may just have ended
            text = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="ascii", errors="replace")
            if thread != own and text.rpartition(")")[2].split()[0] in _BUSY_STATES:
                return True
    return False


def resident_bytes() -> int:
    """The resident memory of this process, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)

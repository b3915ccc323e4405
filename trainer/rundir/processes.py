"""Information about other processes, with the standard library only."""

from __future__ import annotations

import functools
import os
import time


def host_name() -> str:
    """This machine's name on the network."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()


@functools.cache
def pid_namespace() -> str | None:
    """The scope of pids: this boot of this kernel, this container. None: unknown on this system."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def process_started(pid: int) -> int | None:
    """The process's start in clock ticks since boot, or None if unknown on this system (see proc(5)).

    Together with the pid it identifies a process uniquely: pids are reused.
    """
    fields = _stat_fields(pid)
    return None if fields is None else int(fields[19])


def process_is_alive(pid: int, started: int | None = None) -> bool:
    """Whether the process runs (a zombie does not) and, if known, is the one started at `started`. POSIX only."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists, under another user
    fields = _stat_fields(pid)
    if fields is None:
        return True
    return fields[0] not in ("Z", "X") and started in (None, int(fields[19]))


def process_age(pid: int) -> float:
    """Seconds since a process started; if unknown on this system, the processor time of the current process."""
    started = process_started(pid)
    if started is None or not hasattr(time, "CLOCK_BOOTTIME"):
        return time.process_time()
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK"))


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the state on (the third), or None without such a file."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None

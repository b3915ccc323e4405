"""Runs commands in a Linux control group (version 1 or 2) with a memory limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness import checkout_environment

ROOT = Path("/sys/fs/cgroup")


class MemoryLimit:
    """A control group on this machine whose processes share `limit` bytes of memory. Creating it needs permission."""

    def __init__(self, limit: int) -> None:
        is_second = (ROOT / "cgroup.controllers").exists()
        self._group = (ROOT if is_second else ROOT / "memory") / f"trainer-{os.getpid()}"
        self._limit_file, self._events = (
            ("memory.max", "memory.events") if is_second else ("memory.limit_in_bytes", "memory.oom_control")
        )
        self._limit = limit

    def __enter__(self) -> MemoryLimit:
        self._group.mkdir()
        (self._group / self._limit_file).write_text(str(self._limit))
        return self

    def __exit__(self, *exception: object) -> None:
        self._group.rmdir()

    def run(self, command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Runs a command in the group."""
        script = f'echo $$ > {self._group}/cgroup.procs && exec "$@"'
        return subprocess.run(
            ["sh", "-c", script, "sh", *command], cwd=folder, env=checkout_environment(), capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    @property
    def kills(self) -> int:
        """Number of processes that the system killed because memory ran out."""
        lines = (self._group / self._events).read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

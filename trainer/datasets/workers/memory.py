"""Memory shared between processes through a file descriptor. It has no name, so nothing is left behind."""

from __future__ import annotations

import mmap
import os
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np

CONTROL_GROUP = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Bytes that can be allocated without swapping: of the machine, limited by the control group."""
    import psutil  # imported on first use: it takes 10 ms

    free = int(psutil.virtual_memory().available)
    limit = _limit_of_the_group()
    if limit is None:
        return free
    current = int((CONTROL_GROUP / "memory.current").read_text(encoding="ascii"))
    return max(0, min(free, limit - current))


def whole_memory() -> int:
    """Bytes of memory of the machine, limited by the control group, whether used or free."""
    import psutil  # as above

    whole, limit = int(psutil.virtual_memory().total), _limit_of_the_group()
    return whole if limit is None else min(whole, limit)


def _limit_of_the_group() -> int | None:
    """The memory limit of the control group in bytes; None without one."""
    try:
        limit = (CONTROL_GROUP / "memory.max").read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if limit == "max" else int(limit)


def open_files_allowed() -> int:
    """Maximum number of open files of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class Memory:
    """`size` bytes with a descriptor; processes that receive the descriptor map the same bytes.

    On Linux it is an anonymous memory file, which neither lies in /dev/shm nor counts against its limit; on other
    systems, a deleted temporary file.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def create(cls, size: int, name: str) -> Memory:
        """New memory of zeros, which is allocated as it is written; `name` is visible in /proc."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create(f"trainer-{name}", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile(prefix=f"trainer-{name}-") as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, size)
        return cls(descriptor)

    @property
    def size(self) -> int:
        """Size in bytes, as last changed by any process."""
        return os.fstat(self.descriptor).st_size

    def grow(self, size: int) -> None:
        """Increases the size to at least this; existing mappings stay valid."""
        if size > self.size:
            os.ftruncate(self.descriptor, size)

    def mapping(self) -> mmap.mmap:
        """The bytes, for reading and writing; unmapped when no longer referenced."""
        return mmap.mmap(self.descriptor, self.size)

    def map(self) -> np.ndarray:
        """uint8 [size]: the same as an array."""
        return np.frombuffer(self.mapping(), np.uint8)

    def map_copy(self) -> np.ndarray:
        """A private copy: changes stay in this process."""
        return np.frombuffer(mmap.mmap(self.descriptor, self.size, access=mmap.ACCESS_COPY), np.uint8)

    def close(self) -> None:
        """Closes the descriptor; mappings stay valid."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()

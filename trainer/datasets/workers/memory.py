"""Memory shared between processes through a file descriptor. It has no name, so nothing is left behind."""

from __future__ import annotations

import mmap
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

CONTROL_GROUP = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")

_FILES = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}
"""The files with the limit and the use of a group, by controller: version 2 has one hierarchy for all controllers."""


def free_memory() -> int:
    """Bytes that can be allocated without swapping: of the machine, limited by the control groups."""
    import psutil  # imported on first use: it takes 10 ms

    free = int(psutil.virtual_memory().available)
    return max(0, min([free, *(limit - used for limit, used in _limits())]))


def whole_memory() -> int:
    """Bytes of memory of the machine, limited by the control groups, whether used or free."""
    import psutil  # as above

    return min([int(psutil.virtual_memory().total), *(limit for limit, _ in _limits())])


def _limits() -> Iterator[tuple[int, int]]:
    """The memory limit of each control group of this process and the memory it uses, in bytes.

    A group's path starts at the root of its hierarchy, where a container sees its own group.
    """
    try:
        lines = OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        kind = "" if not controllers else "memory" if "memory" in controllers.split(",") else None
        if kind is None:
            continue
        root, (limit_file, used_file) = CONTROL_GROUP / kind, _FILES[kind]
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            try:
                limit = (folder / limit_file).read_text(encoding="ascii").strip()
                used = int((folder / used_file).read_text(encoding="ascii"))
            except OSError:
                limit, used = "max", 0  # the root of version 2 has no limit; a container doesn't see its parents
            if limit != "max":
                yield int(limit), used
            if folder == root:
                break


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
        """uint8 [size]: the bytes of `mapping` as an array."""
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

"""The arena: one block of memory that all programs of the device share, as large as the largest plan."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

HUGE_PAGE = 2 << 20
OVERRUN = 1 << 16
"""Number of bytes past the end of a program's memory that are also filled with NaN."""

_PRIVATE: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""A forked child writes to its own copy of the arena; by default a mapping is shared with the parent."""


class Arena:
    """A block of memory that grows in place or moves. Programs rebind their addresses when `generation` changes."""

    def __init__(self) -> None:
        self.generation = 0
        self.size = 0
        self.address = 0
        self._mapping: mmap.mmap | None = None

    def reserve(self, size: int) -> None:
        """Makes room for `size` bytes at a 2 MB boundary, on huge pages if the system supports them.

        On Linux existing pages stay: in a virtual machine the first access to 2 MB takes up to 4 ms.

        Raises:
            MemoryError: the system refuses the allocation.
        """
        if size <= self.size:
            return
        size = -(-size // HUGE_PAGE) * HUGE_PAGE
        try:
            if self._mapping is not None and sys.platform == "linux":
                self._mapping.resize(size + HUGE_PAGE)
            else:
                self._mapping = mmap.mmap(-1, size + HUGE_PAGE, **_PRIVATE)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"{size / 1e6:.0f} MB for what a program holds between its kernels") from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._mapping.madvise(mmap.MADV_HUGEPAGE)
        start = np.frombuffer(self._mapping, np.uint8).ctypes.data
        self.size, self.address = size, -(-start // HUGE_PAGE) * HUGE_PAGE
        self.generation += 1

    def poison(self, size: int) -> None:
        """Fills the first `size` bytes, and OVERRUN bytes after them, with a NaN of every floating-point type.

        A program that reads memory that it has not written, or reads shortly past its end, then returns NaN. The rest
        is not filled: the arena is as large as the largest program, and every run of the smallest one would pay for it.
        """
        if self._mapping is not None:
            start = np.frombuffer(self._mapping, np.uint8).ctypes.data
            end = min(self.address - start + size + OVERRUN, len(self._mapping))
            np.frombuffer(self._mapping, np.uint8)[self.address - start : end] = 0xFF

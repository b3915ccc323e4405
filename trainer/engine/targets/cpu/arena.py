"""The arena: one block of memory that all programs of the device share, as large as the largest plan."""

from __future__ import annotations

import mmap

import numpy as np

HUGE_PAGE = 2 << 20

_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""The child of a fork writes to an arena of its own; by default mappings are shared with it."""


class Arena:
    """Grows by being replaced; programs compare `generation` and bind their addresses anew."""

    def __init__(self) -> None:
        self.generation = 0
        self.size = 0
        self.address = 0
        self._mapping: mmap.mmap | None = None
        self._memory: np.ndarray | None = None

    def reserve(self, size: int) -> None:
        """Make room for `size` bytes at a 2 MB boundary, on huge pages where the system has them.

        Raises:
            MemoryError: the system refuses so much.
        """
        if size <= self.size:
            return
        size = -(-size // HUGE_PAGE) * HUGE_PAGE
        try:
            mapping = mmap.mmap(-1, size + HUGE_PAGE, **_PRIVATE)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"{size / 1e6:.0f} MB for what a program holds between its kernels") from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            mapping.madvise(mmap.MADV_HUGEPAGE)
        memory = np.frombuffer(mapping, np.uint8)
        start = -memory.ctypes.data % HUGE_PAGE
        self._mapping, self._memory = mapping, memory[start : start + size]
        self.size, self.address = size, self._memory.ctypes.data
        self.generation += 1

    def poison(self) -> None:
        """Fill with NaN (of float64, float32 and bfloat16 alike), so that a read of freed memory shows in results."""
        if self._memory is not None:
            self._memory[:] = 0xFF

"""A ring buffer in shared memory: one process writes records, the other reads them in order.

Positions count bytes without wrapping; the address is the position modulo the capacity. A record is contiguous. The
reader stores its position in the first words of the memory. When everything is read, the writer starts at the beginning
again: writing to cached memory takes a quarter of the time.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Sequence

import numpy as np

from trainer.metrics.folding.form import aligned

_HEADER = 64
_READ, _RECORDS, _FAILED = range(3)

Source = Callable[[memoryview], None]
"""Writes its bytes to the given memory."""


def shared_memory(size: int) -> int:
    """A descriptor of anonymous memory, which is freed with the last process that uses it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("trainer-metrics")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, _HEADER + size)
    return descriptor


class Ring:
    """Either end of the ring in the memory of `descriptor`."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, 0)
        self._view = memoryview(self._map)
        self._words = self._view[:_HEADER].cast("q")
        self._bytes = np.frombuffer(self._view, np.uint8)[_HEADER:]
        self.capacity = len(self._bytes)
        self._written = self._begun = 0

    # --- the writer ---------------------------------------------------------------------------------------------------

    @property
    def records_read(self) -> int:
        """Number of records that the reader has finished."""
        return self._words[_RECORDS]

    @property
    def has_failed(self) -> bool:
        """Whether the reader has called `fail`."""
        return self._words[_FAILED] != 0

    def write(self, sources: Sequence[tuple[Source, int]], size: int) -> tuple[int, int] | None:
        """Writes one record of `size` bytes from sources with these numbers of bytes; returns its start and end.

        None if the ring is full.
        """
        start, read = self._written, self._words[_READ]
        if read == start:
            start = self._written = self._begun = start + -start % self.capacity
        elif start % self.capacity + size > self.capacity:
            start += -start % self.capacity
        if start + size - max(read, self._begun) > self.capacity:
            return None
        at = _HEADER + start % self.capacity
        for source, length in sources:
            source(self._view[at : at + length])
            at += aligned(length)
        self._written = start + size
        return start, self._written

    # --- the reader ---------------------------------------------------------------------------------------------------

    def read(self, start: int, end: int) -> np.ndarray:
        """The bytes of a record in place, uint8: valid until `done`."""
        at = start % self.capacity
        return self._bytes[at : at + end - start]

    def done(self, end: int) -> None:
        """Frees the record that ends at `end`."""
        self._words[_READ] = end
        self._words[_RECORDS] += 1

    def fail(self) -> None:
        """Sets the flag that the writer checks: an error message is available."""
        self._words[_FAILED] = 1

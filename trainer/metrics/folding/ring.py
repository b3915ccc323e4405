"""A ring of bytes in memory that two processes share: one writes records, the other reads them in order.

Positions count bytes for ever; where they lie is their rest by the capacity. A record lies in one piece. The reader
says how far it is in the first words of the memory, which is all that the two need to agree on. Whenever all is read
the writer begins at the start of the memory again: memory that is in a cache takes a record in a quarter of the time.
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
"""Writes its bytes where it is told to."""


def shared_memory(size: int) -> int:
    """A descriptor of memory without a name, which is gone with the last process that has it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("trainer-metrics")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, _HEADER + size)
    return descriptor


class Ring:
    """Either end of the ring in the memory behind `descriptor`."""

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
        """How many records the reader is done with."""
        return self._words[_RECORDS]

    @property
    def has_failed(self) -> bool:
        """Whether the reader has noted that it failed."""
        return self._words[_FAILED] != 0

    def write(self, sources: Sequence[tuple[Source, int]], size: int) -> tuple[int, int] | None:
        """Let sources, of so many bytes each, write one record of `size` bytes; its start and end.

        None while there is no room for it.
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
        """The bytes of a record where they lie, uint8: good until `done`."""
        at = start % self.capacity
        return self._bytes[at : at + end - start]

    def done(self, end: int) -> None:
        """The record that ends there was read; its room is free."""
        self._words[_READ] = end
        self._words[_RECORDS] += 1

    def fail(self) -> None:
        """Let the writer know, at its next look, that there is an error to be heard."""
        self._words[_FAILED] = 1

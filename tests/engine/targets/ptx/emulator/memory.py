"""Memory as kernels see it: regions of bytes that remember who wrote and who read them.

A region's unit is the smallest access that the kernel makes to its space. A race is two accesses to a unit by two
threads, at least one a plain write, with no barrier between them (`clocks`). Of the readers since the last write each
unit remembers the last two, and the first of two different blocks, which no barrier orders. Atomic accesses do not race
with each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tests.engine.targets.ptx.emulator.fault import Fault
from tests.engine.targets.ptx.emulator.kinds import UNSIGNED

UNWRITTEN, UNTOUCHED = -2, -1
"""What stands for a unit's writer where nothing has written it, or the host has; `UNTOUCHED` also for a reader."""


_EACH_BYTE = 0x0101010101010101
"""A mask of bytes that are all true, as one number."""


class Order(Protocol):
    """What is known of the order of accesses."""

    def threads(self, lanes: np.ndarray) -> np.ndarray:
        """Numbers of threads, across the grid."""

    def stamps(self, lanes: np.ndarray) -> np.ndarray:
        """The time at which lanes are, on the clocks of their warps."""

    def is_before(self, threads: np.ndarray, stamps: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Whether accesses of other threads at these times are before what the lanes do now."""

    def blocks(self, threads: np.ndarray) -> np.ndarray:
        """The blocks of threads."""

    def describe(self, thread: int) -> str:
        """A thread's block and number in it."""


@dataclass
class Region:
    """Bytes of one space. `is_written`: all, none, or a mask of bytes. `private`: each lane has its own part, which
    has no races.
    """

    name: str
    data: np.ndarray
    unit: int
    is_written: bool | np.ndarray = True
    is_writable: bool = True
    private: bool = False
    writer: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        units = -(-self.data.size // self.unit)
        written = np.ones(units * self.unit, bool)
        written[: self.data.size] = self.is_written
        whole = written.view(UNSIGNED[self.unit]) == _EACH_BYTE % (1 << 8 * self.unit)
        self.writer = np.where(whole, np.int64(UNTOUCHED), np.int64(UNWRITTEN))
        if self.private or not self.is_writable:
            return
        self.wrote_at = np.zeros(units, np.int32)
        self.is_atomic = np.zeros(units, bool)
        self.readers = [np.full(units, UNTOUCHED, np.int64) for _ in range(2)]
        self.read_at = [np.zeros(units, np.int32) for _ in range(2)]
        self.reads_atomic = [np.zeros(units, bool) for _ in range(2)]
        self.elsewhere = [np.full(units, UNTOUCHED, np.int64) for _ in range(2)]

    def _units(self, places: np.ndarray, size: int) -> np.ndarray:
        first = places // self.unit
        return first[:, None] + np.arange(-(-size // self.unit)) if size > self.unit else first[:, None]

    def _shared(self, found: np.ndarray, lane: np.ndarray, what: str, order: Order, other: np.ndarray) -> None:
        if found.any():
            place = tuple(np.argwhere(found)[0])
            thread = order.describe(int(other[place]))
            raise Fault(f"race in {self.name}: {what} {thread}", int(lane[place[0]]))

    def _unordered(self, others: np.ndarray, stamps: np.ndarray, lanes: np.ndarray, order: Order) -> np.ndarray:
        """Where another thread than the lane's accessed a unit, and no barrier followed."""
        found = (others >= 0) & (others != order.threads(lanes)[:, None])
        if found.any():
            rows, _ = places = np.nonzero(found)
            found[places] = ~order.is_before(others[places], stamps[places], lanes[rows])
        return found

    def check_read(self, places: np.ndarray, size: int, lanes: np.ndarray, order: Order, is_atomic: bool) -> None:
        """Check a read of `size` bytes at each place and remember it."""
        units = self._units(places, size)
        writer = self.writer[units]
        if (writer == UNWRITTEN).any():
            raise Fault(f"unwritten memory of {self.name} is read", int(lanes[np.argwhere(writer == UNWRITTEN)[0][0]]))
        if self.private or not self.is_writable:
            return
        raced = self._unordered(writer, self.wrote_at[units], lanes, order)
        if is_atomic:
            raced &= ~self.is_atomic[units]
        self._shared(raced, lanes, "a read after a write of", order, writer)
        threads = np.broadcast_to(order.threads(lanes)[:, None], units.shape)
        stamps = np.broadcast_to(order.stamps(lanes)[:, None], units.shape)
        last = self.readers[0][units]
        older = units[(last >= 0) & (last != threads)]
        self._note(1, older, self.readers[0][older], self.read_at[0][older], self.reads_atomic[0][older])
        self._note(0, units, threads, stamps, is_atomic)
        both = self.readers[0][units] != threads  # several lanes read it at once: only one of them is noted yet
        self._note(1, units[both], threads[both], stamps[both], is_atomic)
        if not is_atomic:
            self._note_blocks(units, threads, order)

    def _note_blocks(self, units: np.ndarray, threads: np.ndarray, order: Order) -> None:
        """Remember the first reader, and the first one of another block."""
        first, second = self.elsewhere
        new = first[units] < 0
        first[units[new]] = threads[new]
        other = (second[units] < 0) & (order.blocks(first[units]) != order.blocks(threads))
        second[units[other]] = threads[other]

    def _note(self, which: int, units: np.ndarray, threads: np.ndarray, stamps: np.ndarray, atomic: object) -> None:
        """Remember the last reader of units, or the one before."""
        self.readers[which][units], self.read_at[which][units] = threads, stamps
        self.reads_atomic[which][units] = atomic

    def check_write(self, places: np.ndarray, size: int, lanes: np.ndarray, order: Order, is_atomic: bool) -> None:
        """Check a write of `size` bytes at each place and remember it."""
        if not self.is_writable:
            raise Fault(f"a write to {self.name}, which is constant", int(lanes[0]))
        units = self._units(places, size)
        if self.private:
            self.writer[units] = UNTOUCHED
            return
        writer = self.writer[units]
        raced = self._unordered(writer, self.wrote_at[units], lanes, order)
        if is_atomic:
            raced &= ~self.is_atomic[units]
        self._shared(raced, lanes, "a write after a write of", order, writer)
        for readers, stamps, atomic in zip(self.readers, self.read_at, self.reads_atomic, strict=True):
            reader = readers[units]
            if (reader >= 0).any():
                raced = self._unordered(reader, stamps[units], lanes, order)
                if is_atomic:
                    raced &= ~atomic[units]
                self._shared(raced, lanes, "a write after a read of", order, reader)
        threads = np.broadcast_to(order.threads(lanes)[:, None], units.shape)
        for known in self.elsewhere:
            reader = known[units]
            raced = (reader >= 0) & (order.blocks(reader) != order.blocks(threads))
            self._shared(raced, lanes, "a write after a read of", order, reader)
            known[units] = UNTOUCHED
        self.writer[units] = threads
        if not is_atomic:
            self._shared(self.writer[units] != threads, lanes, "a write at the same time as", order, self.writer[units])
        self.wrote_at[units] = order.stamps(lanes)[:, None]
        self.is_atomic[units] = is_atomic
        self.readers[0][units] = self.readers[1][units] = UNTOUCHED

    def written(self) -> np.ndarray:
        """The mask of bytes that hold something."""
        kind = UNSIGNED[self.unit].type
        each = (self.writer != UNWRITTEN).astype(kind) * kind(_EACH_BYTE % (1 << 8 * self.unit))
        return each.view(bool)[: self.data.size]

    def forget(self, places: np.ndarray, size: int) -> None:
        """Mark bytes as unwritten: an asynchronous copy to them is under way."""
        self.writer[self._units(places, size)] = UNWRITTEN

    def load(self, places: np.ndarray, kind: np.dtype) -> np.ndarray:
        return self._elements(kind)[places // kind.itemsize]

    def store(self, places: np.ndarray, values: np.ndarray) -> None:
        self._elements(values.dtype)[places // values.dtype.itemsize] = values

    def _elements(self, kind: np.dtype) -> np.ndarray:
        return self.data[: self.data.size // kind.itemsize * kind.itemsize].view(kind)

"""Storage: the memory behind a leaf of the graph, and how a logical shape lies in it."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from trainer import TrainerError
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.sequence import tick

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The order in which logical axes lie in memory, slowest first; dense. (0, 1, 2, 3) is NCHW, (0, 2, 3, 1)
    channels-last.
    """

    order: tuple[int, ...]

    @staticmethod
    @functools.cache
    def row_major(ndim: int) -> Layout:
        return Layout(tuple(range(ndim)))

    @property
    def is_row_major(self) -> bool:
        return self.order == tuple(range(len(self.order)))

    def strides(self, shape: Shape) -> tuple[int, ...]:
        """Elements between neighbours along each logical axis of `shape`."""
        strides = [0] * len(shape)
        step = 1
        for axis in reversed(self.order):
            strides[axis] = step
            step *= shape[axis]
        return tuple(strides)


class Storage:
    """Memory of one tensor: a dense, 64-byte aligned array in `layout`; None until something is put there.

    `is_state` marks memory that programs update in place (parameters, moments, counters). Once a program is bound to
    it, its layout is `settled`: every later program reads it as it lies.
    """

    __slots__ = (
        *(
            "__weakref__",
            "_address",
            "_memory",
            "dtype",
            "is_state",
            "layout",
            "name",
            "settled",
            "shape",
            "updates",
            "writes",
        ),
    )

    def __init__(self, shape: Shape, dtype: DType, *, is_state: bool = False, name: str = "") -> None:
        self.shape, self.dtype, self.is_state, self.name = shape, dtype, is_state, name
        self.layout = Layout.row_major(len(shape))
        self._memory: np.ndarray | None = None
        self._address = 0
        self.settled = False
        self.writes = 0
        self.updates: tuple[list[int], ...] = ()
        """Counts of runs of the programs that update a state's memory, each in a list of its own."""

    @property
    def memory(self) -> np.ndarray | None:
        """The elements as they lie, flat."""
        return self._memory

    @memory.setter
    def memory(self, memory: np.ndarray) -> None:
        self._memory, self._address = memory, 0

    @property
    def address(self) -> int:
        """Where the memory begins; asking NumPy takes a microsecond, so it is asked once."""
        if not self._address:
            if self._memory is None:
                raise self.nothing_yet()
            self._address = self._memory.ctypes.data
        return self._address

    def put(self, memory: np.ndarray, address: int, layout: Layout) -> None:
        """Take `memory`, which begins at `address`, with elements in `layout`."""
        self._memory, self._address, self.layout = memory, address, layout

    def lay_out(self, layout: Layout) -> None:
        """Move the elements into another physical order; no program may be bound to the memory yet."""
        if self.settled:
            raise AssertionError(f"a program is bound to the memory of {self.name or 'a state'}")
        if self.memory is None:
            self.layout = layout
            return
        values = self.view()
        self.layout, self.memory = layout, aligned_empty(values.size, self.dtype.storage)
        self.view()[...] = values

    @classmethod
    def of(cls, array: np.ndarray, dtype: DType, *, is_state: bool = False, name: str = "") -> Storage:
        """A storage that holds a copy of `array` (logical order; bfloat16 as uint16 bit patterns)."""
        storage = cls(array.shape, dtype, is_state=is_state, name=name)
        storage.memory = aligned_empty(array.size, dtype.storage)
        storage.view()[...] = array
        tick(storage.nbytes)
        return storage

    @property
    def version(self) -> int:
        """How often the memory of a state was written."""
        return self.writes + sum([count for (count,) in self.updates])

    def write(self, values: np.ndarray) -> None:
        """Store `values`, of the logical shape, in the memory."""
        self.view()[...] = values
        self.writes += 1

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def copied_to(self, memory: np.ndarray) -> np.ndarray:
        """Copy the elements as they lie to a flat array of as many; gives a view of that as `view` does."""
        if self.memory is None:
            raise self.nothing_yet()
        memory[...] = self.memory[: memory.size]
        copy = Storage(self.shape, self.dtype)
        copy.layout, copy.memory = self.layout, memory
        return copy.view()

    def nothing_yet(self) -> TrainerError:
        """The error to raise where a value is needed that no memory holds."""
        return refusal(
            "read",
            "a tensor that was made inside a traced step has no value outside it",
            found=f"computed from {self.name or 'its arguments'}",
            hint="Return it from the step, or assign it to a State.",
        )

    def view(self) -> np.ndarray:
        """The memory as a strided NumPy array of the logical shape; shares the memory."""
        memory, shape, size = self._memory, self.shape, math.prod(self.shape)
        if memory is None:
            raise self.nothing_yet()
        if memory.size != size:
            memory = memory[:size]
        if self.layout is Layout.row_major(len(shape)):
            return memory.reshape(shape)
        order = self.layout.order
        return memory.reshape([shape[axis] for axis in order]).transpose(np.argsort(order))


def aligned_empty(size: int, dtype: np.dtype, alignment: int = 64) -> np.ndarray:
    """An uninitialised flat array of at least one element whose address is a multiple of `alignment` bytes."""
    nbytes = max(1, size) * np.dtype(dtype).itemsize
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes].view(dtype)

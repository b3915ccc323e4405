"""A slot: shared memory in which a worker creates a batch and from which the training process reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trainer.datasets.collate import Shapes
from trainer.datasets.fields import Batch
from trainer.datasets.workers.memory import Memory

ALIGNMENT = 64
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Placed:
    """The position of an array in a slot: first byte, and strides in bytes."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int


class WritableSlot:
    """A worker's side of a slot: allocates arrays, and grows as needed."""

    def __init__(self, descriptor: int) -> None:
        self._memory = Memory(descriptor)
        self._bytes = self._memory.map() if self._memory.size else np.empty(0, np.uint8)
        self._end = 0

    def clear(self) -> None:
        """Discards the contents of the slot."""
        self._end = 0

    def room(self, shapes: Shapes) -> dict[str, np.ndarray]:
        """Arrays of these shapes, one after the other."""
        starts, end = [], self._end
        for shape, dtype in shapes.values():
            starts.append(end)
            nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            end += -(-nbytes // ALIGNMENT) * ALIGNMENT
        if end > len(self._bytes):
            if self._end:
                raise AssertionError("a slot can't grow while it contains arrays")
            self._bytes = np.empty(0, np.uint8)
            self._memory.grow(-(-end // _PAGE) * _PAGE)
            self._bytes = self._memory.map()
        self._end = end
        return {
            name: np.ndarray(shape, dtype, self._bytes, start)
            for (name, (shape, dtype)), start in zip(shapes.items(), starts, strict=True)
        }

    def placed(self, batch: Batch) -> dict[str, Placed]:
        """Returns the positions of the batch's arrays; copies all arrays into the slot if one is elsewhere."""
        if not all(self._holds(array) for array in batch.values()):
            self.clear()
            shapes: Shapes = {name: (_by_stride(array).shape, array.dtype) for name, array in batch.items()}
            for name, target in self.room(shapes).items():
                array = batch[name]
                target[...] = _by_stride(array)
                batch = {**batch, name: target.transpose(np.argsort(_axes_by_stride(array)))}
        first = self._bytes.ctypes.data
        return {
            name: Placed(array.dtype.str, array.shape, array.strides, array.ctypes.data - first if array.size else 0)
            for name, array in batch.items()
        }

    def _holds(self, array: np.ndarray) -> bool:
        first, place = self._bytes.ctypes.data, array.ctypes.data
        return array.size == 0 or first <= place < first + len(self._bytes)


def arrays_in(memory: np.ndarray, placed: Mapping[str, Placed]) -> Batch:
    """The arrays in a slot's bytes, as views."""
    return {name: np.ndarray(at.shape, at.dtype, memory, at.start, at.strides) for name, at in placed.items()}


def _axes_by_stride(array: np.ndarray) -> list[int]:
    """The array's axes in memory order, slowest first."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def _by_stride(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else array.transpose(_axes_by_stride(array))

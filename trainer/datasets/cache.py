"""A cache of decoded items in memory, limited in size and shared by all worker processes."""

from __future__ import annotations

import pickle
import struct
import threading
from typing import Any

import numpy as np

from trainer.datasets.dataset import Dataset, Wrapped
from trainer.datasets.fields import Item
from trainer.datasets.workers.memory import Memory

_ALIGNMENT = 64
_LENGTH = struct.Struct("=Q")
_PLACE_BITS = 48
_writer = 0


def set_writer(number: int) -> None:
    """Selects the cache arena that this process writes to: 0 for the training process, from 1 on for workers."""
    global _writer
    _writer = number


class ItemCache:
    """Stores items by index in at most `limit` bytes; a stored item is never evicted.

    Each process writes to one arena and reads all of them; a directory locates the items. Each arena is as large as
    the limit but uses memory only as it is written.

    Args:
        length: number of items of the data set.
        limit: maximum size in bytes.
        writers: number of processes that store items, including this one.
    """

    def __init__(self, length: int, limit: int, writers: int = 1) -> None:
        self.limit = limit
        self._memories = [Memory.create(8 * (length + writers), "directory")]
        self._memories += [Memory.create(max(1, limit), "items") for _ in range(writers)]
        self._length = length
        self._open()

    def _open(self) -> None:
        numbers = self._memories[0].map().view(np.int64)
        self._directory, self._used = numbers[: self._length], numbers[self._length :]
        self._arenas = [memory.map() for memory in self._memories[1:]]
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"limit": self.limit, "_memories": self._memories, "_length": self._length}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    @property
    def bytes_used(self) -> int:
        """Bytes used by all processes."""
        return int(self._used.sum())

    def __len__(self) -> int:
        """Number of cached items."""
        return int(np.count_nonzero(self._directory))

    def get(self, index: int) -> Item | None:
        """Item `index`, with read-only arrays that are views of the cache; None if it is not cached."""
        entry = int(self._directory[index])
        if entry == 0:
            return None
        arena, place = self._arenas[entry >> _PLACE_BITS], (entry & ((1 << _PLACE_BITS) - 1)) - 1
        (length,) = _LENGTH.unpack_from(arena.data, place)
        first = place + _LENGTH.size
        fields = pickle.loads(arena[first : first + length].data)
        data = arena[_aligned(first + length) :]
        data.flags.writeable = False
        return {name: np.ndarray(shape, dtype, data, start)[()] for name, (dtype, shape, start) in fields.items()}

    def put(self, index: int, item: Item) -> bool:
        """Stores item `index` unless it is cached or exceeds the limit; returns whether it was stored."""
        fields, end = {}, 0
        for name, value in item.items():
            array = np.asarray(value)
            fields[name] = (array.dtype.str, array.shape, end)
            end += _aligned(array.nbytes)
        header = pickle.dumps(fields, pickle.HIGHEST_PROTOCOL)
        with (
            self._lock
        ):  # locks out other threads of the process; its release orders the item before its entry in the directory
            place = int(self._used[_writer])
            data = _aligned(place + _LENGTH.size + len(header))
            needed = data + end - place
            if self._directory[index] != 0 or self.bytes_used + needed > self.limit:
                return False
            self._used[_writer] += needed  # reserved before writing, so that processes together keep to the limit
            if self.bytes_used > self.limit:
                self._used[_writer] -= needed
                return False
            arena = self._arenas[_writer]
            _LENGTH.pack_into(arena.data, place, len(header))
            arena[place + _LENGTH.size : place + _LENGTH.size + len(header)] = np.frombuffer(header, np.uint8)
            for name, (dtype, shape, start) in fields.items():
                np.ndarray(shape, dtype, arena, data + start)[...] = item[name]
        self._directory[index] = _writer << _PLACE_BITS | place + 1
        return True


class Cached(Wrapped):
    """A data set whose items are read once and then returned from a cache. Their arrays are read-only."""

    def __init__(self, dataset: Dataset, cache: ItemCache) -> None:
        super().__init__(dataset)
        self.cache = cache

    def __getitem__(self, index: int) -> Item:
        item = self.cache.get(index)
        if item is None:
            item = self.dataset[index]
            self.cache.put(index, item)
        return item


def _aligned(place: int) -> int:
    return -(-place // _ALIGNMENT) * _ALIGNMENT

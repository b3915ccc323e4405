"""Launches: what a program is made of before memory is planned. A launch is one kernel on given buffers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.storage import Storage


@dataclass(eq=False, slots=True)
class Buffer:
    """A dense array of a program. With `storage` it is a leaf's or a result's memory; else it lives in the arena."""

    size: int
    dtype: DType
    label: str
    storage: Storage | None = None
    result: int | None = None

    @property
    def nbytes(self) -> int:
        return max(1, self.size) * self.dtype.itemsize

    @property
    def in_arena(self) -> bool:
        return self.storage is None and self.result is None


@dataclass(frozen=True, slots=True)
class Address:
    """A place in a buffer, as a word of an argument block."""

    buffer: Buffer
    byte_offset: int = 0


class KernelSource:
    """A kernel before it is rendered: equal keys are the same code. Its hash is kept: a key holds whole bodies."""

    __slots__ = ("_hash", "key", "render")

    def __init__(self, key: Hashable, render: Callable[[str], str]) -> None:
        self.key, self.render, self._hash = key, render, hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, KernelSource) and self._hash == other._hash and self.key == other.key
        )


@dataclass(eq=False, slots=True)
class Launch:
    """One kernel: its code, argument words, grid of tasks, and the buffers it reads and writes."""

    source: KernelSource
    words: list[int | Address]
    tasks: int
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    label: str
    scratch: int = 0

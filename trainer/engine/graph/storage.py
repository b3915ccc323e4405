"""Storage: the memory of a leaf of the graph, its device, and the layout of the logical shape in it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from trainer import TrainerError
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.sequence import tick

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Logical axes in the order in memory, slowest first: (0, 1, 2, 3) is NCHW, (0, 2, 3, 1) channels-last."""

    order: tuple[int, ...]

    @staticmethod
    @functools.cache
    def row_major(ndim: int) -> Layout:
        return Layout(tuple(range(ndim)))

    @property
    def is_row_major(self) -> bool:
        return self.order == tuple(range(len(self.order)))

    def strides(self, shape: Shape) -> tuple[int, ...]:
        """Elements between neighbors along each logical axis of `shape`."""
        strides = [0] * len(shape)
        step = 1
        for axis in reversed(self.order):
            strides[axis] = step
            step *= shape[axis]
        return tuple(strides)


CHANNELS_LAST = Layout((0, 2, 3, 1))
WEIGHTS = Layout((2, 3, 1, 0))
"""Layout of convolution weights, with output channels innermost: logical [K, C, R, S] is stored as [R, S, C, K]."""
TOKENS = Layout((0, 2, 1, 3))
"""Layout of attention, with the heads of a token adjacent: logical [B, H, T, D] is stored as [B, T, H, D]."""


class Memory(Protocol):
    """The memory of a device. Elements are in blocks, which are opaque to all other code (the host's are flat arrays).

    Operations on blocks, programs included, run in the order of the calls. An asynchronous device runs them later:
    `download` waits for them, and raises their errors.
    """

    name: str

    def allocate(self, size: int, dtype: DType) -> Any:
        """Allocates a block of at least one element."""

    def upload(self, block: Any, values: np.ndarray) -> None:
        """Stores flat `values`, which may be changed afterwards, at the beginning of a block."""

    def download(self, block: Any) -> np.ndarray:
        """Returns the elements, flat; callers must not write to them."""

    def copy(self, block: Any) -> Any:
        """Returns a new block with the current elements of `block`."""

    def part(self, block: Any, start: int, size: int) -> Any:
        """Returns a view of `size` elements of `block`, from element `start` on, as a block."""

    def fetch(self, block: Any) -> None:
        """Prepares `download` of this block, which no longer changes: its copy begins before the next run."""

    def is_ready(self, block: Any) -> bool:
        """Whether `download` returns without waiting."""


class HostMemory:
    """The memory of the process."""

    name = "host"

    def allocate(self, size: int, dtype: DType) -> np.ndarray:
        return aligned_empty(size, dtype.storage)

    def upload(self, block: np.ndarray, values: np.ndarray) -> None:
        block[: values.size] = values

    def download(self, block: np.ndarray) -> np.ndarray:
        return block

    def copy(self, block: np.ndarray) -> np.ndarray:
        copy = aligned_empty(block.size, block.dtype)
        copy[: block.size] = block
        return copy

    def part(self, block: np.ndarray, start: int, size: int) -> np.ndarray:
        return block[start : start + size]

    def fetch(self, block: np.ndarray) -> None:
        pass

    def is_ready(self, block: np.ndarray) -> bool:
        return True


HOST: Memory = HostMemory()

moves = [0]
"""Number of moves of storages to another memory: programs bound to addresses check these again when it changes."""


class Storage:
    """A dense array in `layout`, in a block of `owner`'s memory; without elements until `put`.

    `is_state` marks memory that programs update in place (parameters, moments, counters). Once a program is bound to
    it, its layout is `settled`: every later program uses this layout. Without `is_aligned`, a program's input may
    begin at any element, not only at a multiple of 16 bytes.
    """

    __slots__ = (
        "__weakref__", "_address", "block", "dtype", "is_aligned", "is_state", "layout", "name", "owner", "settled",
        "shape", "updates", "writes",
    )  # fmt: skip

    def __init__(
        self, shape: Shape, dtype: DType, *, is_state: bool = False, name: str = "", layout: Layout | None = None,
        block: np.ndarray | None = None, address: int = 0,
    ) -> None:  # fmt: skip
        self.shape, self.dtype, self.is_state, self.name = shape, dtype, is_state, name
        self.layout = layout or Layout.row_major(len(shape))
        self.owner: Memory = HOST
        self.block: Any = block
        self._address = address
        self.settled, self.is_aligned = False, True
        self.writes = 0
        self.updates: tuple[list[int], ...] = ()
        """Run counts of the programs that update a state's memory, each in its own list."""

    @classmethod
    def of(cls, array: np.ndarray, dtype: DType, *, is_state: bool = False, name: str = "") -> Storage:
        """A storage on the host that holds a copy of `array` (logical order; bfloat16 as uint16 bit patterns)."""
        storage = cls(array.shape, dtype, is_state=is_state, name=name)
        storage.block = aligned_empty(array.size, dtype.storage)
        storage.view()[...] = array
        tick(storage.nbytes)
        return storage

    # Where the elements are

    @property
    def is_ready(self) -> bool:
        """Whether reading would not wait for the device that computes the elements."""
        return self.block is None or self.owner.is_ready(self.block)

    @property
    def address(self) -> int:
        """Address of the elements on the host, after moving them there; cached, since asking NumPy takes 1 µs."""
        if not self._address:
            self.move(HOST)
            self._address = self.block.ctypes.data
        return self._address

    def put(self, block: Any, layout: Layout, owner: Memory = HOST, address: int = 0) -> None:
        """Takes `block` of `owner`'s memory, with elements in `layout`; `address` is that of a block of the host."""
        self.block, self.layout, self.owner, self._address = block, layout, owner, address

    def move(self, owner: Memory) -> None:
        """Moves the elements to `owner`; returns immediately if they are there."""
        if self.block is None:
            raise self.nothing_yet()
        if self.owner is not owner:
            values = self.flat()
            block = owner.allocate(values.size, self.dtype)
            owner.upload(block, values)
            self.put(block, self.layout, owner)
            moves[0] += 1

    def lay_out(self, layout: Layout) -> None:
        """Rearranges the elements into another layout; no program may be bound to the memory yet."""
        if self.settled:
            raise AssertionError(f"a program is bound to the memory of {self.name or 'a state'}")
        if self.block is None:
            self.layout = layout
            return
        values, owner = self.view(), self.owner
        self.put(aligned_empty(values.size, self.dtype.storage), layout)
        self.view()[...] = values
        self.move(owner)

    # The elements

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def version(self) -> int:
        """Number of writes to the memory of a state."""
        return self.writes + sum([count for (count,) in self.updates])

    def flat(self) -> np.ndarray:
        """The elements in memory order; on the host the memory itself, else a copy."""
        if self.block is None:
            raise self.nothing_yet()
        return self.owner.download(self.block)

    def view(self) -> np.ndarray:
        """The elements as a strided NumPy array of the logical shape; on the host it shares the memory."""
        return self._logical(self.flat() if self.owner is not HOST or self.block is None else self.block)

    def _logical(self, memory: np.ndarray) -> np.ndarray:
        shape, size = self.shape, math.prod(self.shape)
        if memory.size != size:
            memory = memory[:size]
        if self.layout is Layout.row_major(len(shape)):
            return memory.reshape(shape)
        order = self.layout.order
        return memory.reshape([shape[axis] for axis in order]).transpose(np.argsort(order))

    def write(self, values: np.ndarray) -> None:
        """Stores `values`, of the logical shape."""
        if self.owner is HOST:
            self.view()[...] = values
        else:
            lying = values.transpose(self.layout.order)
            self.owner.upload(self.block, np.ascontiguousarray(lying, self.dtype.storage).reshape(-1))
        self.writes += 1

    def copied(self, *, is_read: bool = False) -> Storage:
        """Returns a copy of this storage with its current elements, of the same owner, without waiting; `is_read`: the
        host reads the copy later.
        """
        if self.block is None:
            raise self.nothing_yet()
        copy = Storage(self.shape, self.dtype, name=self.name)
        copy.put(self.owner.copy(self.block), self.layout, self.owner)
        if is_read:
            copy.owner.fetch(copy.block)
        tick(copy.nbytes)
        return copy

    def copied_to(self, memory: np.ndarray) -> Callable[[], np.ndarray]:
        """Copies the current elements, on the host to `memory`; returns a function like `view` that reads the copy."""
        if self.owner is HOST:
            memory[...] = self.flat()[: memory.size]
            return lambda: self._logical(memory)
        return self.copied(is_read=True).view

    def nothing_yet(self) -> TrainerError:
        """Returns the error to raise when no memory holds a value that is read."""
        return refusal(
            "read",
            "a tensor that was created inside a traced step has no value outside it",
            found=f"computed from {self.name or 'its arguments'}",
            hint="Return it from the step, or assign it to a State.",
        )


def aligned_empty(size: int, dtype: np.dtype, alignment: int = 64) -> np.ndarray:
    """An uninitialized flat array of at least one element whose address is a multiple of `alignment` bytes."""
    nbytes = max(1, size) * np.dtype(dtype).itemsize
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes].view(dtype)

"""Memory of a GPU: blocks from CuPy's pool, and copies on three streams.

compute   kernels, and copies within the GPU's memory, in the order of the calls
copies    batches to the GPU, during the previous step
reading   results to the host, during the next step

Released memory may be reused at once for work on `compute`. Memory that another stream still needs, and pinned memory
of the host, is kept until an event marks the end of the copy.
"""

from __future__ import annotations

import weakref
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets import Fence
from trainer.engine.targets.cuda.driver import Gpu, in_bytes

ALIGNMENT = 256


class Allocation:
    """Bytes of the GPU's memory, released when nothing refers to this object; `label` names their use."""

    __slots__ = ("__weakref__", "_pointer", "address", "label", "nbytes")

    def __init__(self, pointer: Any, nbytes: int, label: str) -> None:
        self._pointer, self.address, self.nbytes, self.label = pointer, int(pointer.ptr), nbytes, label


class Block:
    """`size` elements at `address`, within `allocation`.

    `arrival` locates their copy on the host, present or future: a transaction and the byte offset in it. Blocks that
    change have none.
    """

    __slots__ = ("address", "allocation", "arrival", "dtype", "size")

    def __init__(self, allocation: Allocation, size: int, dtype: DType, offset: int = 0) -> None:
        self.allocation, self.size, self.dtype = allocation, max(1, size), dtype
        self.address = allocation.address + offset
        self.arrival: tuple[Transaction, int] | None = None

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


class Ending(Fence):
    """A fence at an event of a stream."""

    def __init__(self, memory: CudaMemory, event: Any, doing: str) -> None:
        self._memory, self._event, self._doing = memory, event, doing

    @property
    def is_ready(self) -> bool:
        return bool(self._event.done)

    def wait(self) -> None:
        if self._memory.wait_for is not None:
            self._memory.wait_for(self._event)
        with self._memory.gpu.used(self._doing):
            self._event.synchronize()


class Transaction:
    """Copies to pinned memory of the host that begin together and end with one event."""

    def __init__(self, memory: CudaMemory) -> None:
        self._memory = memory
        self._parts: list[tuple[int, int, int, Any]] = []
        self._nbytes = 0
        self._pinned: Any = None
        self._ending: Ending | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the copies have begun, and no more can be added."""
        return self._ending is not None

    def add(self, address: int, nbytes: int, owner: Any) -> int:
        """Adds bytes that no longer change and that `owner` keeps alive; returns their offset in the transaction."""
        place = self._nbytes
        self._parts.append((place, address, nbytes, owner))
        self._nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return place

    def begin(self) -> Ending:
        """Begins to copy, after the current work of `compute`, unless it has begun before."""
        if self._ending is None:
            memory, parts = self._memory, self._parts
            self._pinned, self._parts = memory.pinned(self._nbytes), []
            with memory.gpu.used("copying to the host") as cuda:
                memory.reading.wait_event(memory.mark(memory.compute))
                for place, address, nbytes, _ in parts:
                    memory.move(
                        cuda.runtime.memcpyDeviceToHost, self._pinned.ptr + place, address, nbytes, memory.reading
                    )
                event = memory.mark(memory.reading)
                memory.keep(event, self._pinned, parts)
            self._ending = Ending(memory, event, "copying to the host")
        return self._ending

    def array(self, place: int, block: Block) -> np.ndarray:
        """Waits for the elements of a block and returns them as a view of the pinned memory."""
        self.begin().wait()
        return np.frombuffer(self._pinned, block.dtype.storage, block.size, place)


class CudaMemory:
    """The memory of one GPU, and its streams."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.name = gpu, gpu.device
        with gpu.used("starting") as cuda:
            self._pool = cuda.MemoryPool()
            self.compute, self.copies, self.reading = (cuda.Stream(non_blocking=True) for _ in range(3))
        self.wait_for: Callable[[Any], None] | None = None
        """Waits for an event that depends on other processes; raises if one of them is lost."""
        self._live: weakref.WeakSet[Allocation] = weakref.WeakSet()
        self._kept: deque[tuple[Any, tuple[Any, ...]]] = deque()
        self._fetched: Transaction | None = None

    # Allocation

    def held(self) -> str:
        """Lists the memory in use by label, the largest first."""
        totals: Counter[str] = Counter()
        for allocation in list(self._live):
            totals[allocation.label] += allocation.nbytes
        return ", ".join(f"{in_bytes(nbytes)} of {label}" for label, nbytes in totals.most_common())

    def take(self, nbytes: int, label: str) -> Allocation:
        """Allocates `nbytes` of the GPU's memory, at least one byte."""
        with self.gpu.used(f"taking {in_bytes(nbytes)} for {label}", self.held):
            allocation = Allocation(self._pool.malloc(max(1, nbytes)), nbytes, label)
        self._live.add(allocation)
        return allocation

    def pinned(self, nbytes: int) -> Any:
        """Allocates memory of the host that the GPU copies from and to."""
        with self.gpu.used(f"pinning {in_bytes(nbytes)} of the host's memory") as cuda:
            return cuda.alloc_pinned_memory(max(1, nbytes))

    def keep(self, event: Any, *objects: Any) -> None:
        """Keeps objects until an event; releases those whose events have passed."""
        self._kept.append((event, objects))
        while self._kept and self._kept[0][0].done:
            self._kept.popleft()

    # The interface of memories

    def allocate(self, size: int, dtype: DType) -> Block:
        size = max(1, size)
        return Block(self.take(size * dtype.itemsize, "weights, states and other tensors"), size, dtype)

    def upload(self, block: Block, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values)
        pinned = self.pinned(values.nbytes)
        np.frombuffer(pinned, values.dtype, values.size)[...] = values
        with self.gpu.used("copying to the GPU") as cuda:
            self.move(cuda.runtime.memcpyHostToDevice, block.address, pinned.ptr, values.nbytes, self.compute)
            self.keep(self.mark(self.compute), pinned, block)

    def download(self, block: Block) -> np.ndarray:
        transaction, place = block.arrival or self._add(Transaction(self), block)
        return transaction.array(place, block)

    def fetch(self, block: Block) -> None:
        """Requests a copy to the host of a block that no longer changes; it begins before the next run, with others."""
        if self._fetched is None or self._fetched.has_begun:  # one of its values was read early
            self._fetched = Transaction(self)
        block.arrival = self._add(self._fetched, block)

    def begin_fetching(self) -> None:
        """Begins to copy the blocks that `fetch` was called for."""
        fetched, self._fetched = self._fetched, None
        if fetched is not None:
            fetched.begin()

    def copy(self, block: Block) -> Block:
        other = self.allocate(block.size, block.dtype)
        with self.gpu.used("copying on the GPU") as cuda:
            kind = cuda.runtime.memcpyDeviceToDevice
            self.move(kind, other.address, block.address, block.nbytes, self.compute)
        return other

    def part(self, block: Block, start: int, size: int) -> Block:
        offset = block.address - block.allocation.address + start * block.dtype.itemsize
        return Block(block.allocation, size, block.dtype, offset)

    def is_ready(self, block: Block) -> bool:
        if block.arrival is not None:
            return block.arrival[0].begin().is_ready
        return bool(self.compute.done)

    # Inside of `gpu.used`

    def mark(self, stream: Any) -> Any:
        """Records an event after all current work of `stream`."""
        event = self.gpu.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def move(self, kind: int, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copies bytes on a stream."""
        if nbytes:
            self.gpu.cuda.runtime.memcpyAsync(target, source, nbytes, kind, stream.ptr)

    def _add(self, transaction: Transaction, block: Block) -> tuple[Transaction, int]:
        return transaction, transaction.add(block.address, block.nbytes, block)

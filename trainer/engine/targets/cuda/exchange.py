"""Sums over the GPUs of several processes: NCCL's sends and receives, and additions by the engine's own kernel.

Values are added along one balanced tree over ranks, the lower operand first: (r0 + r1) + (r2 + r3). NCCL's own sums
guarantee no order, so they are not used. As with MPI for CPUs (`learner.ranks.tree`), small values are exchanged whole
at distances 1, 2, 4, …; large values are halved, and the finished parts return the same way.

    compute    ▸ totals of this process's shards ▸ other work ▸ readers of the sums
    exchange         after the totals: pack ▸ send and receive ▸ add ▸ … ▸ unpack
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.targets import DeviceFailure
from trainer.engine.targets.cuda.driver import load_nccl
from trainer.engine.targets.cuda.memory import Allocation, CudaMemory
from trainer.engine.targets.cuda.program import Program

SMALL_BYTES = 1 << 16
"""Values of at most this total size are exchanged whole: fewer messages take less time than fewer bytes."""

UNIT = 16
"""Parts of an array begin at a multiple of this many elements, so that kernels can load 16 bytes at once."""

_LABEL = "sums over processes"
_NOT_READY = 600
"""The status of an event whose work has not finished (cudaErrorNotReady)."""


class Messages(Protocol):
    """Messages between the processes that need no GPU: the interface of MPI's."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...

    def from_first(self, value: Any = None) -> Any:
        """Returns the value that rank 0 passes."""

    def require_same(self, facts: Mapping[str, Any], hint: str = ...) -> None:
        """Raises if a fact is not the same in all processes."""

    def gather(self, arrays: Sequence[np.ndarray], owners: Sequence[int]) -> None:
        """Replaces each flat array with the array of its owner, a process."""

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Returns once `is_done()` is true; raises if another process is lost."""


@dataclass(frozen=True)
class Round:
    """An exchange with `partner`: the elements [first, last) that this rank keeps, and those that the partner keeps."""

    partner: int
    kept: tuple[int, int]
    given: tuple[int, int]


def rounds(rank: int, size: int, length: int, *, is_whole: bool) -> list[Round]:
    """Returns the exchanges of one of `size` ranks, a power of two, that sum arrays of `length` elements."""
    found, low, high, distance = [], 0, length, 1
    while distance < size:
        partner = rank ^ distance
        if is_whole:
            found.append(Round(partner, (low, high), (low, high)))
        else:
            middle = min(high, low + -(-(high - low) // (2 * UNIT)) * UNIT)
            halves = (low, middle), (middle, high)
            kept, given = halves if rank < partner else halves[::-1]
            found.append(Round(partner, kept, given))
            low, high = kept
        distance *= 2
    return found


class NcclExchange:
    """The exchange of one GPU with the GPUs of the other processes. All processes create it together.

    Raises:
        TrainerError: CuPy has no NCCL, or the processes have different GPUs or versions of NCCL.
        DeviceFailure: NCCL fails.
    """

    def __init__(
        self, memory: CudaMemory, messages: Messages, compiled: Callable[[Sequence[Node], Sequence[Node]], Program]
    ) -> None:
        gpu, self._memory, self._messages, self._compiled = memory.gpu, memory, messages, compiled
        self._nccl = nccl = load_nccl(gpu.cuda)
        facts = {"the GPU": f"{gpu.name} ({gpu.processor})", "the version of NCCL": nccl.get_version()}
        messages.require_same(facts, hint="Use GPUs of one kind, with the same packages, for all processes.")
        self._adders: dict[tuple[int, DType], Program] = {}
        with self._used("connecting the processes") as cuda:
            identity = messages.from_first(nccl.get_unique_id() if messages.rank == 0 else None)
            self._communicator = nccl.NcclCommunicator(messages.size, identity, messages.rank)
            self._stream = cuda.Stream(non_blocking=True)
        memory.wait_for = self._wait_for

    def begin(self, totals: Sequence[Storage]) -> Callable[[], None]:
        """Starts to replace values with their sums over all processes. Returns a function; GPU work that is launched
        after a call of it sees the sums.
        """
        memory = self._memory
        of_dtype: dict[DType, list[Storage]] = defaultdict(list)
        for total in totals:
            total.move(memory)
            if math.prod(total.shape):
                of_dtype[total.dtype].append(total)
        jobs = [_Job(memory, self._messages, dtype, found) for dtype, found in of_dtype.items()]
        for job in jobs:
            for each in job.rounds:
                self._adder(each.kept[1] - each.kept[0], job.dtype)  # compiled before anything waits for it
        with self._used("summing over the processes"):
            self._stream.wait_event(memory.mark(memory.compute))
            for job in jobs:
                self._run(job)
            end = memory.mark(self._stream)
            memory.keep(end, jobs)
        for job in jobs:
            job.hand_over()

        def finish() -> None:
            with memory.gpu.used("summing over the processes"):
                memory.compute.wait_event(end)

        return finish

    def gather(self, arrays: Sequence[np.ndarray], owners: Sequence[int]) -> None:
        """Replaces each flat host array with the array of its owner, through the messages of the processes."""
        self._messages.gather(arrays, owners)

    def _run(self, job: _Job) -> None:
        memory, width = self._memory, job.dtype.itemsize
        kind = memory.gpu.cuda.runtime.memcpyDeviceToDevice
        for total, offset in zip(job.totals, job.offsets, strict=True):
            memory.move(kind, job.packed.address + offset, total.block.address, total.nbytes, self._stream)
        source, target = job.packed.address, job.other.address - job.rounds[0].kept[0] * width
        for each in job.rounds:
            first, last = each.kept
            self._swap(each.partner, source, each.given, job.spare.address - first * width, each.kept, width)
            if size := last - first:
                own, taken = source + first * width, job.spare.address
                operands = (own, taken) if self._messages.rank < each.partner else (taken, own)
                self._adder(size, job.dtype).launch_at(operands, [target + first * width], self._stream)
            source, target = target, source
        if len(job.rounds) % 2:
            moved = (last - first) * width
            memory.move(kind, job.packed.address + first * width, source + first * width, moved, self._stream)
        if not job.is_whole:
            for each in reversed(job.rounds):
                self._swap(each.partner, job.packed.address, each.kept, job.packed.address, each.given, width)
        for block, total, offset in zip(job.sums, job.totals, job.offsets, strict=True):
            memory.move(kind, block.address, job.packed.address + offset, total.nbytes, self._stream)

    def _swap(
        self, partner: int, source: int, given: tuple[int, int], target: int, taken: tuple[int, int], width: int
    ) -> None:
        """Sends elements `given` of the array at `source`, and receives elements `taken` of the array at `target`."""
        nccl, communicator, stream = self._nccl, self._communicator, self._stream.ptr
        nccl.groupStart()
        try:
            if size := given[1] - given[0]:
                communicator.send(source + given[0] * width, size * width, nccl.NCCL_UINT8, partner, stream)
            if size := taken[1] - taken[0]:
                communicator.recv(target + taken[0] * width, size * width, nccl.NCCL_UINT8, partner, stream)
        finally:
            nccl.groupEnd()

    def _adder(self, size: int, dtype: DType) -> Program:
        """Returns a program that adds two arrays and flushes subnormal numbers, like a step with all shards does."""
        found = self._adders.get((size, dtype))
        if found is None:
            first, second = (p.buffer(Storage((size,), dtype, name="total")) for _ in range(2))
            found = self._adders[size, dtype] = self._compiled([p.add(first, second)], [first, second])
        return found

    def _wait_for(self, event: Any) -> None:
        """Waits for an event. NCCL's kernels never end if another process is lost: then NCCL is aborted.

        Raises:
            DeviceFailure: NCCL fails.
        """

        def is_over() -> bool:
            self._communicator.check_async_error()
            return bool(self._memory.gpu.cuda.runtime.eventQuery(event.ptr) != _NOT_READY)

        try:
            with self._used("waiting for the processes"):
                self._messages.wait(is_over)
        except BaseException:
            self._communicator.abort()
            raise

    @contextmanager
    def _used(self, doing: str) -> Iterator[Any]:
        gpu = self._memory.gpu
        try:
            with gpu.used(doing, self._memory.held) as cuda:
                yield cuda
        except self._nccl.NcclError as error:
            raise DeviceFailure(
                f"NCCL failed on {gpu.device} ({gpu.name})",
                where=f"rank {self._messages.rank} of {self._messages.size}",
                found=f"{error} (status {error.status}), while {doing}",
                hint="NCCL_DEBUG=INFO prints the reason. The run resumes from its last checkpoint.",
            ) from error


class _Job:
    """Values of one dtype that are summed together: packed contiguously, with the memory for their exchange."""

    def __init__(self, memory: CudaMemory, messages: Messages, dtype: DType, totals: Sequence[Storage]) -> None:
        self._memory, self.dtype, self.totals = memory, dtype, totals
        self.offsets, nbytes = [], 0
        for total in totals:
            self.offsets.append(nbytes)
            nbytes += total.nbytes
        self.is_whole = nbytes <= SMALL_BYTES
        self.rounds = rounds(messages.rank, messages.size, nbytes // dtype.itemsize, is_whole=self.is_whole)
        first, last = self.rounds[0].kept
        self.packed: Allocation = memory.take(nbytes, _LABEL)
        self.spare, self.other = (memory.take((last - first) * dtype.itemsize, _LABEL) for _ in range(2))
        self.sums = [memory.allocate(math.prod(total.shape), dtype) for total in totals]
        self._blocks = [total.block for total in totals]

    def hand_over(self) -> None:
        """Replaces the totals with the sums; the memory of the totals is kept until the exchange is over."""
        for total, block in zip(self.totals, self.sums, strict=True):
            total.put(block, total.layout, self._memory)

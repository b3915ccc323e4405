"""A program: launches bound to memory and laid out as a tape that the thread pool walks."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from trainer.engine.graph.node import Node
from trainer.engine.graph.sequence import tick
from trainer.engine.graph.storage import Layout, Storage, aligned_empty, moves
from trainer.engine.program.plan import MemoryPlan, plan_memory
from trainer.engine.program.work import Buffer
from trainer.engine.targets import Run
from trainer.engine.targets.cpu.arena import Arena
from trainer.engine.targets.cpu.barriers import barriers
from trainer.engine.targets.cpu.control_block import REPEAT
from trainer.engine.targets.cpu.describe import Compilation
from trainer.engine.targets.cpu.loaded_kernels import Kernel
from trainer.engine.targets.cpu.lowering.launch import Address, Launch, Place
from trainer.engine.targets.cpu.pool import BARRIER, RECORD_WORDS, SCRATCH_BYTES, SINGLE, Pool
from trainer.engine.targets.cpu.recording import NO_STAMPS, ProgramRun, Recording, room, skipped
from trainer.engine.targets.cpu.target import Lowered, Placement
from trainer.engine.targets.cpu.thread_choice import ThreadChoice


class ProgramTuner(Protocol):
    """The interface of a tuner for a device and its programs."""

    def choose(self, spec: Any, otherwise: Callable[[Any], Any]) -> Any:
        """Returns the decided parameters of a template, or else those that `otherwise` chooses."""

    def adopt(self, program: Program) -> None:
        """Adds the kernels of a newly compiled program."""

    def before(self, program: Program) -> None:
        """Called before each run of `program`."""

    def counts(self, program: Program) -> bool:
        """Whether the next run of `program` must be measured."""

    def wants_all_threads(self, program: Program) -> bool:
        """Whether the next run of `program`, for which `counts` is true, must use all threads."""

    def after(self, run: ProgramRun[Program]) -> None:
        """Called after each run of a program."""


class ProgramDevice(Protocol):
    """The interface of a device for its programs."""

    pool: Pool
    arena: Arena
    poison: bool
    tuner: ProgramTuner | None
    recording: Recording | None


@dataclass(frozen=True, slots=True)
class _Result:
    """A result: its shape, buffer and layout, the argument words that point to it, and its memory so far."""

    shape: tuple[int, ...]
    buffer: Buffer
    layout: Layout
    places: tuple[tuple[int, int], ...]
    slots: list[_Slot]


class _Slot:
    """Memory that is leased to one result at a time.

    A lease is a separate array over the memory, and the base of every view of the result. It lives as long as any
    tensor of the result, or view or buffer of one; until then the memory is not leased again.
    """

    def __init__(self, size: int, dtype: np.dtype) -> None:
        memory = aligned_empty(size, dtype)
        self.address, self.nbytes, self._dtype = memory.ctypes.data, memory.nbytes, dtype
        self._bytes = memory.view(np.uint8).data
        self._lease: weakref.ref[np.ndarray] | None = None

    @property
    def is_free(self) -> bool:
        return self._lease is None or self._lease() is None

    def lease(self) -> np.ndarray:
        """Returns the memory as a flat array; the lease ends when nothing refers to the array."""
        array = np.frombuffer(self._bytes, self._dtype)
        self._lease = weakref.ref(array)
        tick(self.nbytes)
        return array


class Program:
    """Compiled code and its argument blocks. `run` patches the addresses of inputs and results and walks the tape."""

    def __init__(
        self, device: ProgramDevice, lowered: Lowered, kernels: Sequence[Kernel], inputs: Sequence[Node],
        shapes: Sequence[tuple[int, ...]], *, flush: bool,
    ) -> None:  # fmt: skip
        self.device, self.flush = device, flush
        self.compilation: Compilation | None = None
        self.launches: list[Launch] = lowered.launches
        if lowered.placement is None:
            memory = plan_memory([launch.work for launch in self.launches])
            lowered.placement = Placement(memory, tuple(barriers(self.launches, memory.offsets)))
        self.memory: MemoryPlan = lowered.placement.memory
        given = iter(kernels)  # a repeat has one for each launch in its body
        self._kernels = [[next(given) for _ in launch.coded()] for launch in self.launches]  # keeps the code loaded
        self.single = all(launch.tasks <= 1 for launch in self.launches)
        self._thread_choice = None if self.single or device.pool.threads == 1 else ThreadChoice(device.pool.threads)
        starts = np.cumsum([0, *[len(launch.words) for launch in self.launches]])
        self._words = aligned_empty(int(starts[-1]), np.dtype(np.int64))
        self._tape = aligned_empty(max(1, len(self.launches)) * RECORD_WORDS, np.dtype(np.int64))
        self._tape[:] = 0
        self._patch = memoryview(self._words.data).cast("B").cast("q")
        self._keep: list[np.ndarray] = []
        self.constant = lowered.constant
        constant = [buffer.storage for launch in self.launches[: self.constant] for buffer in launch.reads]
        self._constant_of = [storage for storage in dict.fromkeys(constant) if storage is not None]
        self._versions: list[int] | None = None
        """Versions, at the last run, of the states that the constant launches read."""
        self._runs = [0]
        for storage in {buffer.storage for launch in self.launches for buffer in launch.writes}:
            if storage is not None:
                storage.updates += (self._runs,)
        in_arena: list[tuple[int, int]] = []
        base = self._words.ctypes.data
        by_buffer: dict[Buffer, list[tuple[int, int]]] = {}
        for start, launch in zip(starts, self.launches, strict=False):
            for position, word in enumerate(launch.words, int(start)):
                if isinstance(word, Address):
                    if word.buffer.in_arena:
                        in_arena.append((position, self.memory.offsets[word.buffer] + word.byte_offset))
                    else:
                        by_buffer.setdefault(word.buffer, []).append((position, word.byte_offset))
                elif isinstance(word, Place):
                    self._words[position] = base + 8 * (int(start) + word.index)
                else:
                    self._words[position] = word
        self._arena_places = np.array([place for place, _ in in_arena], np.int64)
        self._arena_offsets = np.array([offset for _, offset in in_arena], np.int64)
        self._arena_generation = -1
        flags = lowered.placement.waits
        self._bodies: list[np.ndarray] = []
        for index, (launch, own, start, wait) in enumerate(
            zip(self.launches, self._kernels, starts, flags, strict=False)
        ):
            record = self._tape[index * RECORD_WORDS : (index + 1) * RECORD_WORDS]
            if launch.scratch > SCRATCH_BYTES:
                raise AssertionError(
                    f"{launch.label} wants {launch.scratch} bytes of scratch, threads have {SCRATCH_BYTES}"
                )
            block = base + int(start) * 8
            if launch.body:
                record[[0, 1, 5, 6, 7]] = self._repeat_record(launch, iter(own), block)
            else:
                record[:2] = own[0].address, block
            record[2:4] = launch.tasks, _flags(launch, wait)
        self.barriers = sum(flags)
        self._tape_address = self._tape.ctypes.data
        self._bind(lowered, inputs, shapes, by_buffer)

    def _repeat_record(self, launch: Launch, kernels: Iterator[Kernel], block: int) -> list[int]:
        """Creates the records of a repeat's body; returns words 0, 1, 5, 6 and 7 of the repeat's own record."""
        body = aligned_empty(len(launch.body) * RECORD_WORDS, np.dtype(np.int64))
        body[:] = 0
        self._bodies.append(body)
        records, table, waits = body.reshape(-1, RECORD_WORDS), block, barriers(launch.body, self.memory.offsets)
        for record, part, wait in zip(records, launch.body, waits, strict=True):
            if part.body:
                record[[0, 1, 5, 6, 7]] = self._repeat_record(part, kernels, table)
            else:
                record[:2] = next(kernels).address, table
            record[2:4] = part.tasks, _flags(part, wait)
            table += 8 * len(part.words)
        entries = (block + 8 * len(launch.words) - table) // 16
        return [body.ctypes.data, table, launch.work.spec.count, len(launch.body), entries]

    def _bind(
        self,
        lowered: Lowered,
        inputs: Sequence[Node],
        shapes: Sequence[tuple[int, ...]],
        by_buffer: dict[Buffer, list[tuple[int, int]]],
    ) -> None:
        patched = {node.attributes[0]: index for index, node in enumerate(inputs)}
        self._inputs: list[tuple[tuple[int, int], ...]] = [()] * len(inputs)
        self._bound: list[tuple[Storage, list[tuple[int, int]]]] = []
        for buffer, places in by_buffer.items():
            if buffer.kept:
                own = aligned_empty(buffer.size, buffer.dtype.storage)
                self._keep.append(own)
                for position, offset in places:
                    self._words[position] = own.ctypes.data + offset
            if buffer.storage is None:
                continue
            index = patched.get(buffer.storage)
            if index is not None:
                self._inputs[index] += tuple(places)
                continue
            self._bound.append((buffer.storage, places))
        self._bind_storages()
        self._results = [
            _Result(shape, buffer, layout, tuple(by_buffer.get(buffer, ())), [])
            for shape, buffer, layout in zip(shapes, lowered.results, lowered.layouts, strict=True)
        ]

    def run(self, inputs: Sequence[Storage]) -> Run:
        """Runs on `inputs`; returns the storages of the results, which own their memory until they are released."""
        with self.device.pool.lock:
            return self.run_at([storage.address for storage in inputs])

    def run_at(self, inputs: Sequence[int]) -> Run:
        """Like `run`, on inputs at these addresses; the caller holds the pool's lock."""
        device = self.device
        if self._arena_generation != device.arena.generation or self.memory.size > device.arena.size:
            self._bind_arena()
        if self._moves != moves[0]:
            self._bind_storages()
        words = self._patch
        for places, address in zip(self._inputs, inputs, strict=True):
            for position, offset in places:
                words[position] = address + offset
        results = Run()
        for result in self._results:
            slot = _free_slot(result)
            for position, offset in result.places:
                words[position] = slot.address + offset
            block, dtype = slot.lease(), result.buffer.dtype
            results.append(Storage(result.shape, dtype, layout=result.layout, block=block, address=slot.address))
        if device.poison:
            device.arena.poison(self.memory.size)
        tuner, recording = device.tuner if self.flush else None, device.recording
        if self.single and not self.flush and recording is None:
            device.pool.run(self._tape_address, len(self.launches), threads=1)
            return results
        if tuner is not None:
            tuner.before(self)
        counts = tuner is not None and tuner.counts(self)
        # the profile of a single-threaded run next to a busy process would show half the speed without a reason
        together = recording is not None or (tuner is not None and counts and tuner.wants_all_threads(self))
        walked = self.walk(stamped=recording is not None or counts, together=together)
        if recording is not None:
            recording.runs.append(walked)
        if tuner is not None:
            tuner.after(walked)
        return results

    def walk(self, *, stamped: bool = False, together: bool = False) -> ProgramRun[Program]:
        """Walks the tape once, with the addresses that `run` has bound; `together`: with all threads, even if busy."""
        pool, choice = self.device.pool, None if together else self._thread_choice
        threads = 1 if self.single else pool.threads if choice is None else choice.threads
        stamps, place = NO_STAMPS, 0
        versions = [storage.version for storage in self._constant_of]
        first = self.constant if versions == self._versions else 0
        count, tape = len(self.launches) - first, self._tape_address + 8 * RECORD_WORDS * first
        if stamped:
            stamps = room(threads, count)
            place = stamps.ctypes.data
        start = time.perf_counter()
        self._runs[0] += 1
        pool.run(tape, count, threads=threads, flush=self.flush, stamps=place)
        spent = time.perf_counter() - start
        self._versions = versions
        if stamped and first:
            stamps = skipped(stamps, first)
        if choice is not None:
            choice.took(spent)
        return ProgramRun(self, stamps, start, spent)

    def _bind_storages(self) -> None:
        """Binds the addresses of states and captured values, which change when these move to the host."""
        for storage, places in self._bound:
            for position, offset in places:
                self._words[position] = storage.address + offset
        self._moves, self._versions = moves[0], None

    def _bind_arena(self) -> None:
        arena = self.device.arena
        arena.reserve(self.memory.size)
        if len(self._arena_places):
            self._words[self._arena_places] = self._arena_offsets + arena.address
        self._arena_generation = arena.generation

    @property
    def layouts(self) -> list[Layout]:
        """The layout of each result."""
        return [result.layout for result in self._results]

    @property
    def waits(self) -> np.ndarray:
        """For each launch, whether all threads meet before it."""
        return self._tape[3::RECORD_WORDS][: len(self.launches)] & BARRIER != 0

    def swap(self, index: int, launch: Launch, kernel: Kernel) -> None:
        """Replaces the kernel of a launch, from the next run on (`Launch.with_parameters`)."""
        if launch.scratch > SCRATCH_BYTES:
            raise ValueError(f"{launch.label} wants {launch.scratch} bytes of scratch, threads have {SCRATCH_BYTES}")
        if self._thread_choice is not None:
            self._thread_choice = ThreadChoice(self.device.pool.threads)  # the old one timed other kernels
        before, self.launches[index], self._kernels[index] = self.launches[index], launch, [kernel]
        self._tape[index * RECORD_WORDS], self._tape[index * RECORD_WORDS + 2] = kernel.address, launch.tasks
        if (before.tasks <= 1) != (launch.tasks <= 1):
            flags = barriers(self.launches, self.memory.offsets)
            self._tape[3::RECORD_WORDS] = [_flags(*pair) for pair in zip(self.launches, flags, strict=True)]
            self.barriers, self.single = sum(flags), all(each.tasks <= 1 for each in self.launches)


def _flags(launch: Launch, waits: bool) -> int:
    return (BARRIER if waits else 0) | (SINGLE if launch.tasks <= 1 else 0) | (REPEAT if launch.body else 0)


def _free_slot(result: _Result) -> _Slot:
    """Returns memory of the result that is free, or else new memory."""
    for slot in result.slots:
        if slot.is_free:
            return slot
    slot = _Slot(result.buffer.size, result.buffer.dtype.storage)
    if len(result.slots) < 16:
        result.slots.append(slot)
    return slot

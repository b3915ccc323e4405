"""Compiled programs on a GPU: launches one by one, or a step as one CUDA graph.

A step's graph is captured once and replayed with one launch, so its addresses are fixed: states and the arena stay
where they are, and each input and result has its place. A run consists of

    copies    ▸ the batch, from pinned memory to a staging buffer, as soon as the previous batch has left it
    compute   ▸ staging buffer to the inputs' places ▸ the graph ▸ the results' places to leased memory
    reading   ▸ results that the host reads, in one transaction that begins before the next step

and waits for nothing: the next batch is copied while the graph runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Protocol

import numpy as np

from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import HOST, Storage, moves
from trainer.engine.program.plan import MemoryPlan, plan_memory
from trainer.engine.program.work import Buffer
from trainer.engine.targets import Run
from trainer.engine.targets.cuda.memory import ALIGNMENT, Allocation, Block, CudaMemory, Ending
from trainer.engine.targets.ptx.launch import Address, Launch
from trainer.engine.targets.ptx.target import Lowered

SLOTS = 2
"""Number of pinned buffers for batches: one is copied to the GPU while the host fills the other."""


class ProgramDevice(Protocol):
    """The interface of a device for its programs."""

    memory: CudaMemory
    lock: RLock

    def arena(self, size: int) -> int:
        """Returns the address of at least `size` bytes for values between launches."""


class Program:
    """Kernels on given buffers. `run_at` launches them one by one. `layouts` are the layouts of the results."""

    def __init__(
        self, device: ProgramDevice, lowered: Lowered, functions: Sequence[Any], inputs: Sequence[Node],
        shapes: Sequence[tuple[int, ...]], *, flush: bool,
    ) -> None:  # fmt: skip
        self.device, self.flush = device, flush
        self.launches: list[Launch] = lowered.launches
        self.memory: MemoryPlan = plan_memory(self.launches)
        self._functions, self._shapes, self.layouts = list(functions), list(shapes), lowered.layouts
        self.results: list[Buffer] = lowered.results
        self._arguments: list[list[np.ndarray]] = []
        in_arena: list[tuple[np.ndarray, int]] = []
        by_buffer: dict[Buffer, list[tuple[np.ndarray, int]]] = {}
        for launch in self.launches:
            words = np.zeros(len(launch.words), np.int64)
            arguments = [words[place : place + 1] for place in range(len(words))]
            for argument, word in zip(arguments, launch.words, strict=True):
                if not isinstance(word, Address):
                    argument[0] = word
                elif word.buffer.in_arena:
                    in_arena.append((argument, self.memory.offsets[word.buffer] + word.byte_offset))
                else:
                    by_buffer.setdefault(word.buffer, []).append((argument, word.byte_offset))
            self._arguments.append(arguments)
        self._in_arena, self._arena = in_arena, 0
        numbers = {node.attributes[0]: index for index, node in enumerate(inputs)}
        self._inputs: list[list[tuple[np.ndarray, int]]] = [[] for _ in inputs]
        self._input_sizes = [node.size * node.dtype.itemsize for node in inputs]
        self._bound: list[tuple[Storage, list[tuple[np.ndarray, int]]]] = []
        for buffer, places in by_buffer.items():
            if buffer.storage in numbers:
                self._inputs[numbers[buffer.storage]] += places
                self._input_sizes[numbers[buffer.storage]] = buffer.nbytes  # of all shards
            elif buffer.storage is not None:
                self._bound.append((buffer.storage, places))
        self._results = [by_buffer.get(buffer, []) for buffer in self.results]
        self._moves = -1

    def run_at(self, addresses: Sequence[int]) -> Run:
        """Runs on inputs at these addresses of the GPU's memory."""
        memory = self.device.memory
        blocks = [memory.allocate(buffer.size, buffer.dtype) for buffer in self.results]
        with memory.gpu.used("running kernels"):
            self.launch_at(addresses, [block.address for block in blocks], memory.compute)
        return self._run_of(blocks)

    def launch_at(self, inputs: Sequence[int], results: Sequence[int], stream: Any) -> None:
        """Launches the kernels on a stream, with inputs and results at these addresses; call inside `gpu.used`."""
        self._bind()
        for places, address in zip((*self._inputs, *self._results), (*inputs, *results), strict=True):
            _place(places, address)
        self._launch(stream)

    def _launch(self, stream: Any) -> None:
        for launch, function, arguments in zip(self.launches, self._functions, self._arguments, strict=True):
            if launch.blocks:
                function((launch.blocks,), (launch.threads,), arguments, launch.shared, stream)

    def _run_of(self, blocks: Sequence[Block]) -> Run:
        run = Run()
        for block, shape, layout in zip(blocks, self._shapes, self.layouts, strict=True):
            storage = Storage(shape, block.dtype)
            storage.put(block, layout, self.device.memory)
            run.append(storage)
        return run

    def _bind(self) -> bool:
        """Updates the addresses of the arena, states and captured values; returns whether one has changed."""
        memory, changed = self.device.memory, False
        arena = self.device.arena(self.memory.size)
        if self._arena != arena:
            self._arena, changed = arena, True
            for argument, offset in self._in_arena:
                argument[0] = arena + offset
        if self._moves != moves[0]:
            for storage, places in self._bound:
                changed |= storage.owner is not memory
                storage.move(memory)
                assert storage.block is not None
                changed |= _place(places, storage.block.address)
            self._moves = moves[0]
        return changed


class Step(Program):
    """A traced step: its launches as one graph. `captures` is the number of times it was captured."""

    captures = 0

    def __init__(
        self, device: ProgramDevice, lowered: Lowered, functions: Sequence[Any], inputs: Sequence[Node],
        shapes: Sequence[tuple[int, ...]], *, flush: bool,
    ) -> None:  # fmt: skip
        super().__init__(device, lowered, functions, inputs, shapes, flush=flush)
        memory = device.memory
        self._graph: Any = None
        self._input_offsets, self._input_bytes = _offsets(self._input_sizes)
        self._result_offsets, self._result_bytes = _offsets([buffer.nbytes for buffer in self.results])
        self._input: Allocation = memory.take(self._input_bytes, "batches")
        self._staging: Allocation = memory.take(self._input_bytes, "batches")
        self._result: Allocation = memory.take(self._result_bytes, "results of steps")
        for places, offset in zip(self._inputs, self._input_offsets, strict=True):
            _place(places, self._input.address + offset)
        for places, offset in zip(self._results, self._result_offsets, strict=True):
            _place(places, self._result.address + offset)
        with memory.gpu.used("starting"):
            self._staging_is_free = memory.mark(memory.compute)
        self._slots: list[tuple[Any, Ending] | None] = [None] * SLOTS
        self._runs = 0

    def run(self, inputs: Sequence[Storage]) -> Run:
        """Runs on `inputs`, which are copied before this returns; does not wait for the previous run."""
        with self.device.lock:
            return self._run(inputs)

    def _run(self, inputs: Sequence[Storage]) -> Run:
        memory = self.device.memory
        memory.begin_fetching()
        if self._bind():
            self._graph = None
        pinned = self._fill([each if each.owner is not memory else None for each in inputs])
        leased = memory.take(self._result_bytes, "results of steps")
        with memory.gpu.used("running a step", memory.held) as cuda:
            if pinned is not None:
                self._send(cuda, pinned, [place for place, each in enumerate(inputs) if each.owner is not memory])
            for storage, offset, size in zip(inputs, self._input_offsets, self._input_sizes, strict=True):
                if storage.owner is memory:
                    block: Block = storage.block
                    kind, target = cuda.runtime.memcpyDeviceToDevice, self._input.address + offset
                    memory.move(kind, target, block.address, size, memory.compute)
            if self._graph is None:
                self._capture(memory)
            self._graph.launch(memory.compute)
            if self.results:
                kind, source = cuda.runtime.memcpyDeviceToDevice, self._result.address
                memory.move(kind, leased.address, source, self._result_bytes, memory.compute)
            ending = Ending(memory, memory.mark(memory.compute), "running a step")
        self._runs += 1
        run = self._run_of(
            [
                Block(leased, buffer.size, buffer.dtype, offset)
                for buffer, offset in zip(self.results, self._result_offsets, strict=True)
            ]
        )
        run.fence = ending
        return run

    def _capture(self, memory: CudaMemory) -> None:
        memory.compute.begin_capture()
        try:
            self._launch(memory.compute)
        except BaseException:
            with suppress(memory.gpu.cuda.runtime.CUDARuntimeError):
                memory.compute.end_capture()
            raise
        graph = memory.compute.end_capture()
        graph.upload(memory.compute)
        self._graph, self.captures = graph, self.captures + 1

    def _fill(self, storages: Sequence[Storage | None]) -> Any:
        """Writes the inputs that are on the host to pinned memory; returns it, or None without such inputs."""
        if not any(storage is not None for storage in storages):
            return None
        memory, number = self.device.memory, self._runs % SLOTS
        slot = self._slots[number]
        if slot is None:
            pinned = memory.pinned(self._input_bytes)
        else:
            pinned, ending = slot
            ending.wait()
        for storage, offset, size in zip(storages, self._input_offsets, self._input_sizes, strict=True):
            if storage is not None:
                storage.move(HOST)
                values = storage.flat()[: size // storage.dtype.itemsize]
                np.frombuffer(pinned, values.dtype, values.size, offset)[...] = values
        return pinned

    def _send(self, cuda: Any, pinned: Any, places: Sequence[int]) -> None:
        """Copies inputs from pinned memory through the staging buffer to their places."""
        memory = self.device.memory
        parts = [(self._input_offsets[place], self._input_sizes[place]) for place in places]
        memory.copies.wait_event(self._staging_is_free)
        kind, target = cuda.runtime.memcpyHostToDevice, self._staging.address
        for offset, size in parts:
            memory.move(kind, target + offset, pinned.ptr + offset, size, memory.copies)
        sent = memory.mark(memory.copies)
        self._slots[self._runs % SLOTS] = (pinned, Ending(memory, sent, "copying a batch to the GPU"))
        memory.keep(sent, pinned)
        memory.compute.wait_event(sent)
        kind = cuda.runtime.memcpyDeviceToDevice
        for offset, size in parts:
            memory.move(kind, self._input.address + offset, self._staging.address + offset, size, memory.compute)
        self._staging_is_free = memory.mark(memory.compute)


def _place(places: Sequence[tuple[np.ndarray, int]], address: int) -> bool:
    """Writes an address to the arguments of kernels; returns whether it has changed."""
    changed = False
    for argument, offset in places:
        changed |= argument[0] != address + offset
        argument[0] = address + offset
    return changed


def _offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Returns the offsets of arrays of these sizes, stored one after the other, and the total size."""
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total += -(-max(1, size) // ALIGNMENT) * ALIGNMENT
    return offsets, total

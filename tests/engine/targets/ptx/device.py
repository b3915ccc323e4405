"""A device that lowers programs to PTX and executes their kernels in the emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.engine.targets.ptx.emulator.launch import Argument
from tests.engine.targets.ptx.emulator.launch import Buffer as Memory
from tests.engine.targets.ptx.emulator.launch import launch as execute
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node, Shape, topological, uncomputed
from trainer.engine.graph.rewrite import replaced
from trainer.engine.graph.storage import Storage
from trainer.engine.program.build import Request
from trainer.engine.program.state_layouts import settle_layouts
from trainer.engine.program.work import Buffer, place_of
from trainer.engine.targets import Device, Run
from trainer.engine.targets.ptx.launch import Address, Launch
from trainer.engine.targets.ptx.lowering.products import Precision
from trainer.engine.targets.ptx.target import Lowered, PtxTarget


class EmulatedDevice(Device):
    """Compiles for a processor and executes in the emulator."""

    name = "emulated"

    def __init__(
        self, processor: str = "sm_90a", *, flush: bool = False, tensor_cores: tuple[Precision, ...] = ()
    ) -> None:
        self.target = PtxTarget(processor, flush, tensor_cores)

    def evaluate(self, nodes: Sequence[Node]) -> Run:
        return self.compile(nodes).run([])

    def compile(
        self,
        results: Sequence[Node],
        updates: Sequence[tuple[Storage, Node]] = (),
        inputs: Sequence[Node] = (),
        *,
        flush: bool = False,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> EmulatedProgram:
        shapes = [node.shape for node in results]
        leaves = [node.attributes[0] for node in inputs]
        target = replace(self.target, flush=flush or self.target.flush)
        return EmulatedProgram(target, self.lowered(results, updates, target), shapes, leaves)

    def lowered(
        self, results: Sequence[Node], updates: Sequence[tuple[Storage, Node]] = (), target: PtxTarget | None = None
    ) -> Lowered:
        """The launches of a graph."""
        target = target or self.target
        outputs = [*results, *(node for _, node in updates)]
        leaves = {node: p.buffer(node.value) for node in uncomputed(outputs) if node.value is not None}
        outputs = target.legal(replaced(outputs, leaves))
        new = tuple((storage, node) for (storage, _), node in zip(updates, outputs[len(results) :], strict=True))
        settle_layouts(topological(outputs), new)
        return target.lower(Request(tuple(outputs[: len(results)]), new))


class EmulatedProgram:
    """Launches, executed one after the other; what none of them has written is not read. `shapes`: of the results."""

    def __init__(self, target: PtxTarget, lowered: Lowered, shapes: Sequence[Shape], inputs: Sequence[Storage]) -> None:
        self.target, self.lowered, self.shapes, self.inputs = target, lowered, shapes, inputs

    def run(self, storages: Sequence[Storage]) -> Run:
        memory = _Memory(dict(zip(self.inputs, storages, strict=True)))
        for launch in self.lowered.launches:
            if launch.blocks:
                memory.execute(launch, self.target.assembled(launch))
        memory.store_states()
        found = []
        for buffer, shape, layout in zip(self.lowered.results, self.shapes, self.lowered.layouts, strict=True):
            elements = memory.array(buffer).view(buffer.dtype.storage)
            steps = [step * elements.itemsize for step in layout.strides(shape)]
            found.append(Storage.of(as_strided(elements, shape, steps), buffer.dtype))
        return Run(found)


class _Memory:
    """The bytes of each place, and a mask of those that hold something."""

    def __init__(self, given: dict[Storage, Storage]) -> None:
        self._given = given
        self._arrays: dict[object, np.ndarray] = {}
        self._written: dict[object, np.ndarray] = {}
        self._states: dict[object, Storage] = {}

    def array(self, buffer: Buffer) -> np.ndarray:
        place = place_of(buffer)
        if place not in self._arrays:
            elements = np.full(buffer.nbytes, 0xFF, np.uint8)
            if buffer.storage is not None:
                storage = self._given.get(buffer.storage, buffer.storage)
                flat = storage.flat()
                elements = np.full(max(buffer.nbytes, flat.nbytes), 0xFF, np.uint8)
                elements[: flat.nbytes] = flat.view(np.uint8)
                self._states[place] = buffer.storage
            self._arrays[place] = elements
            self._written[place] = np.full(elements.size, buffer.storage is not None)
        return self._arrays[place]

    def execute(self, launch: Launch, text: str) -> None:
        targets = {place_of(buffer) for buffer in launch.targets}
        arguments: list[Argument] = []
        for word in launch.words:
            if isinstance(word, Address):
                place, array = place_of(word.buffer), self.array(word.buffer)
                arguments.append(Memory(array, self._written[place], place in targets, word.byte_offset))
            else:
                arguments.append(word)
        execute(text, launch.blocks, launch.threads, arguments, shared_bytes=launch.shared)

    def store_states(self) -> None:
        for place, storage in self._states.items():
            if storage.is_state:
                elements = self._arrays[place].view(storage.dtype.storage)
                storage.owner.upload(storage.block, elements)

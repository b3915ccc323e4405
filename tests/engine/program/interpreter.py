"""A device that computes items of work with NumPy alone, as `build` makes them, before a target expands them.

It knows nothing of the graph but the shapes of results: right values prove that items say everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from trainer import TrainerError
from trainer.engine.graph import half, philox
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node, Shape, topological, uncomputed
from trainer.engine.graph.primitives import TABLE
from trainer.engine.graph.rewrite import replaced
from trainer.engine.graph.simplify import simplify
from trainer.engine.graph.storage import Storage
from trainer.engine.program.build import Program, Request, build
from trainer.engine.program.legalize import legalize
from trainer.engine.program.partition import Policy
from trainer.engine.program.spec import Instruction
from trainer.engine.program.state_layouts import settle_layouts
from trainer.engine.program.target import Features
from trainer.engine.program.work import Buffer, Call, Reduce, View, Work, place_of
from trainer.engine.targets import Device, Run

Elements = Callable[[Storage], np.ndarray]


class Interpreter(Device):
    """A device, and the target that its programs are built for. With `has_prologues` every convolution and weight
    gradient may compute its first operand.
    """

    name = "interpreter"
    features = Features()

    def __init__(self, has_prologues: bool) -> None:
        self.has_prologues = has_prologues

    def legal(self, outputs: Sequence[Node]) -> list[Node]:
        return legalize(simplify(outputs), self.features.wide_groups)

    def takes_prologue(self, node: Node) -> bool:
        return self.has_prologues

    def statistics(self, convolution: Work, reduction: Work) -> None:
        return None

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
    ) -> Interpreted:
        outputs = [*results, *(node for _, node in updates)]
        leaves = {node: p.buffer(node.value) for node in uncomputed(outputs) if node.value is not None}
        outputs = self.legal(replaced(outputs, leaves))
        new = tuple((storage, node) for (storage, _), node in zip(updates, outputs[len(results) :], strict=True))
        settle_layouts(topological(outputs), new)
        program = build(Request(tuple(outputs[: len(results)]), new), Policy(), self)
        return Interpreted(program, [node.shape for node in results], [node.attributes[0] for node in inputs])


@dataclass
class Interpreted:
    """A program that is interpreted item by item. `shapes` are those of the results."""

    program: Program
    shapes: list[Shape]
    inputs: list[Storage]

    def run(self, storages: Sequence[Storage]) -> Run:
        given = dict(zip(self.inputs, storages, strict=True))
        results, updates = self.compute(lambda storage: given.get(storage, storage).flat())
        for storage, elements in updates.items():
            storage.owner.upload(storage.block, elements)
        dtypes = [buffer.dtype for buffer in self.program.results]
        return Run(Storage.of(values, dtype) for values, dtype in zip(results, dtypes, strict=True))

    def storages(self, *, written: bool) -> list[Storage]:
        """The memory outside the program that it writes, or reads."""
        buffers = [buffer for work in self.program.works for buffer in (work.targets if written else work.sources)]
        return list(dict.fromkeys([buffer.storage for buffer in buffers if buffer.storage is not None]))

    def compute(self, elements: Elements) -> tuple[list[np.ndarray], dict[Storage, np.ndarray]]:
        """The results, and the flat new elements of states; `elements` gives those that a storage has now."""
        memory = _Memory(elements)
        with np.errstate(all="ignore"):
            for work in self.program.works:
                try:
                    memory.store(work, _values(work, [memory.read(view) for view in work.reads]))
                except Exception as error:
                    found = f"{type(error).__name__}: {error}"
                    raise TrainerError(f"{work.label} failed", where=work.line, found=found) from error
        updates = {storage: half.stored(memory.at(storage), storage.dtype) for storage in self.storages(written=True)}
        results = []
        for buffer, shape, layout in zip(self.program.results, self.shapes, self.program.layouts, strict=True):
            values = memory.read(View(buffer, buffer.dtype, shape, layout.strides(shape)))
            results.append(half.stored(values, buffer.dtype))
        return results, updates


class _Memory:
    """A flat array for each place, 16-bit floats as float32: copies of leaves and states, and NaN elsewhere."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements
        self._arrays: dict[object, np.ndarray] = {}

    def read(self, view: View) -> np.ndarray:
        """An operand's values, in an array of their own."""
        return _places(view) if view.buffer is None else np.array(self._strided(view), order="C")

    def store(self, work: Work, values: Sequence[np.ndarray]) -> None:
        for view, value in zip(work.writes, values, strict=True):
            assert value.shape == view.shape
            self._strided(view)[...] = half.rounded(value, view.dtype)

    def at(self, storage: Storage) -> np.ndarray:
        return self._arrays["state", id(storage)]

    def of(self, buffer: Buffer) -> np.ndarray:
        place = place_of(buffer)
        if place not in self._arrays:
            if buffer.storage is None:
                elements = np.full(buffer.size * buffer.dtype.itemsize, 0xFF, np.uint8).view(buffer.dtype.storage)
            else:
                elements = self._elements(buffer.storage)[: buffer.size]
            self._arrays[place] = np.array(half.widened(elements, buffer.dtype))
        return self._arrays[place]

    def _strided(self, view: View) -> np.ndarray:
        """An operand where it lies; all of it is inside its buffer."""
        assert view.buffer is not None and view.dtype == view.buffer.dtype
        flat, places = self.of(view.buffer), _places(view)
        assert not view.size or 0 <= places.min() <= places.max() < flat.size
        return as_strided(flat[view.offset :], view.shape, [step * flat.itemsize for step in view.strides])


def _places(view: View) -> np.ndarray:
    """offset + sum(strides[axis] * index[axis]) at each index."""
    terms = [index * step for index, step in zip(np.indices(view.shape, sparse=True), view.strides, strict=True)]
    return np.broadcast_to(sum(terms, np.int64(view.offset)), view.shape)


def _values(work: Work, operands: list[np.ndarray]) -> list[np.ndarray]:
    """What an item writes."""
    if isinstance(work.spec, Call):
        return [_called(work, work.spec, operands)]
    values = _computed(work.body, operands)
    terms = [np.broadcast_to(values[position], work.extents) for position in work.stored]
    if work.kind == "loop":
        return terms
    return [_reduced(work.spec, *pair) for pair in zip(work.spec.operations, terms, strict=True)]


def _computed(body: Sequence[Instruction], operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The value of each instruction, rounded to its dtype."""
    values: list[np.ndarray] = []
    for step in body:
        arguments = [values[position] for position in step.arguments]
        if step.operation == "load":
            value = operands[step.attributes[0]]
        elif step.operation == "random_bits":
            value = _random_bits(step.attributes[0], *arguments)
        else:
            dtype = (step.dtype,) if step.operation in ("constant", "cast") else ()
            value = TABLE[step.operation].reference((*step.attributes, *dtype), *arguments)
        values.append(half.rounded(np.asarray(value), step.dtype))
    return values


def _random_bits(word: int, *operands: np.ndarray) -> np.ndarray:
    """The bits of elements by their row-major index (`primitives.random_bits`)."""
    key_0, key_1, index, counter_0, counter_1 = operands
    counter = [each.astype(np.uint32) for each in (index, index >> 32, counter_0, counter_1)]
    return philox.philox4x32(counter, (key_0.astype(np.uint32), key_1.astype(np.uint32)))[word].view(np.int32)


def _reduced(spec: Reduce, operation: str, term: np.ndarray) -> np.ndarray:
    if operation.startswith("arg"):
        return np.asarray(TABLE[operation].reference(spec.axes, term))
    return np.asarray(TABLE[f"reduce_{operation}"].reference((spec.axes,), term))


def _called(work: Work, call: Call, operands: list[np.ndarray]) -> np.ndarray:
    """A primitive's value, with what is fused before and after it."""
    last = len(operands) - len(work.prologue.operands)
    first = last - len(work.epilogue.operands)
    inputs = operands[:first]
    if work.prologue.body:
        inputs[0] = _computed(work.prologue.body, [inputs[0], *operands[last:]])[-1]
    value = half.rounded(np.asarray(call.operation.reference(call.attributes, *inputs)), call.dtype)
    return _computed(work.epilogue.body, [value, *operands[first:last]])[-1] if work.epilogue.body else value

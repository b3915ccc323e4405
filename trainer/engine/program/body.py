"""Translates a piece of the graph into the body of a kernel: instructions, and the arrays that they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trainer.engine.graph import dtypes
from trainer.engine.graph.node import Node, Shape, reached
from trainer.engine.graph.storage import Layout
from trainer.engine.program.spec import Addressing, Epilogue, EpilogueOperand, Instruction
from trainer.engine.program.views import Coordinates, Linear, NodeView, identity, through


class Load(NamedTuple):
    """An operand: the element of the array `base` at offset + sum(strides[d] * index[d]); without base, this sum."""

    base: Node | None
    offset: int
    strides: tuple[int, ...]


@dataclass
class Body:
    """Instructions over an iteration space of logical axes `shape`; `root` and `value` add those that a node needs."""

    shape: Shape
    views: dict[Node, NodeView]
    instructions: list[Instruction] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    _values: dict[tuple[Node, Coordinates], int] = field(default_factory=dict)
    _known: dict[Instruction, int] = field(default_factory=dict)
    _roots: dict[Node, int] = field(default_factory=dict)

    def root(self, node: Node) -> int:
        """Returns the instruction that computes the stored node `node` at each point of the space."""
        if node.shape == self.shape:
            position = self._compute(node, identity(self.shape))
            self._roots[node] = position
            return position
        return self.value(node.inputs[0], identity(self.shape))  # a reshape that merges axes runs over its input

    def holds(self, node: Node, load: Load) -> bool:
        """Whether `load` reads, at each point, exactly the element of the stored `node` that belongs to this point."""
        return node.shape == self.shape and is_along(load, self.views[node].strides, self.shape)

    def value(self, node: Node, coordinates: Coordinates) -> int:
        """Returns the instruction for `node` at `coordinates`; it reads memory if the node has a view."""
        key = (node, coordinates)
        position = self._values.get(key)
        if position is None:
            view = self.views.get(node)
            position = self._read(node, view, coordinates) if view is not None else self._compute(node, coordinates)
            self._values[key] = position
        return position

    def _read(self, node: Node, view: NodeView, coordinates: Coordinates) -> int:
        offset, strides = view.along(coordinates, len(self.shape))
        load = Load(view.base, offset, strides)
        if view.base in self._roots and self.holds(view.base, load):
            return self._roots[view.base]
        return self._load(load, node.dtype)

    def _compute(self, node: Node, coordinates: Coordinates) -> int:
        rank = len(self.shape)
        match node.operation.family:
            case "movement":
                moved = through(node, coordinates, rank)
                if moved is None:
                    raise AssertionError(f"{node} is not affine and was not stored")
                return self.value(node.inputs[0], moved)
            case "marker":
                return self.value(node.inputs[0], coordinates)
            case "elementwise":
                arguments = tuple(self.value(source, coordinates) for source in node.inputs)
                attributes = () if node.name == "cast" else node.attributes
                return self._add(Instruction(node.name, arguments, node.dtype, attributes))
        match node.name:
            case "constant":
                return self._add(Instruction("constant", (), node.dtype, (node.attributes[0],)))
            case "iota":
                index = coordinates[node.attribute("axis")]
                return self._cast(self._load(Load(None, index.constant, index.coefficients), dtypes.int64), node)
            case "random_bits":
                return self._random_bits(node, coordinates)
        raise AssertionError(f"{node} can't be computed inside a loop")

    def _cast(self, position: int, node: Node) -> int:
        if self.instructions[position].dtype == node.dtype:
            return position
        return self._add(Instruction("cast", (position,), node.dtype))

    def _random_bits(self, node: Node, coordinates: Coordinates) -> int:
        rank = len(self.shape)
        step, index = 1, Linear(0, (0,) * rank)
        for extent, coordinate in zip(reversed(node.shape), reversed(coordinates), strict=True):
            index = index + coordinate.scaled(0, step)
            step *= extent
        element = self._load(Load(None, index.constant, index.coefficients), dtypes.int64)
        words = []
        for source in node.inputs:
            view = self.views[source]
            for word in range(2):
                load = Load(view.base, view.offset + word * view.strides[0], (0,) * rank)
                words.append(self._load(load, dtypes.int32))
        key0, key1, counter0, counter1 = words
        arguments = (key0, key1, element, counter0, counter1)
        return self._add(Instruction("random_bits", arguments, node.dtype, (node.attribute("word"),)))

    def _load(self, load: Load, dtype: dtypes.DType) -> int:
        if load not in self.loads:
            self.loads.append(load)
        return self._add(Instruction("load", (), dtype, (self.loads.index(load),)))

    def _add(self, instruction: Instruction) -> int:
        position = self._known.get(instruction)
        if position is None:
            position = self._known[instruction] = len(self.instructions)
            self.instructions.append(instruction)
        return position


def is_along(load: Load, strides: Sequence[int], shape: Shape) -> bool:
    """Whether `load` starts at the first element and has these `strides`; axes where `shape` is 1 are ignored."""
    return load.offset == 0 and all(a == b for a, b, n in zip(load.strides, strides, shape, strict=True) if n != 1)


def _addressing(load: Load, shape: Shape, layout: Layout, channel: int) -> Addressing | None:
    """The addressing of `load` over `shape` in `layout` in a contraction's kernel, or None if the kernel has none."""
    if load.base is None:
        return None
    steps = {axis: step for axis, step in enumerate(load.strides) if shape[axis] != 1 and step}
    if not steps:
        return "scalar"
    if steps == {channel: 1}:
        return "channel"
    dense = {axis: step for axis, step in enumerate(layout.strides(shape)) if shape[axis] != 1}
    return "same" if steps == dense else None


def _pruned(instructions: Sequence[Instruction], results: Sequence[int]) -> tuple[list[Instruction], dict[int, int]]:
    """The instructions that `results` depend on, and the new position of each."""
    keep = reached(results, lambda position: instructions[position].arguments)
    place = {old: new for new, old in enumerate(sorted(keep))}
    kept = [
        Instruction(step.operation, tuple(place[argument] for argument in step.arguments), step.dtype, step.attributes)
        for step in (instructions[old] for old in place)
    ]
    return kept, place


def _renumbered(instructions: Sequence[Instruction], number: Mapping[int, int]) -> list[Instruction]:
    """The instructions, with the operand of each load replaced by its new `number`."""
    return [
        Instruction("load", (), step.dtype, (number[step.attributes[0]],)) if step.operation == "load" else step
        for step in instructions
    ]


def load_dtypes(body: Sequence[Instruction], count: int) -> list[dtypes.DType]:
    """The dtype of each of `count` operands, taken from the body's load instructions."""
    found = [dtypes.int64] * count
    for instruction in body:
        if instruction.operation == "load":
            found[instruction.attributes[0]] = instruction.dtype
    return found


def tidy(body: Body, stored: Sequence[int]) -> tuple[list[Instruction], list[Load], list[int]]:
    """The instructions and operands that `stored` needs, renumbered, and the new positions of `stored`."""
    kept, place = _pruned(body.instructions, stored)
    used = sorted({instruction.attributes[0] for instruction in kept if instruction.operation == "load"})
    number = {old: new for new, old in enumerate(used)}
    return _renumbered(kept, number), [body.loads[old] for old in used], [place[position] for position in stored]


def as_epilogue(
    root: Node, body: Body, layout: Layout, channel: int, is_main: Callable[[Load, Addressing | None], bool]
) -> tuple[Epilogue, list[Load], tuple[Load, ...]] | None:
    """The epilogue that computes `root` from the loads that `is_main` selects, these loads, and the other loads."""
    position = body.root(root)
    kept, place = _pruned(body.instructions, [position])
    if place[position] != len(kept) - 1:
        return None
    number: dict[int, int] = {}
    operands: list[EpilogueOperand] = []
    mains: list[Load] = []
    others: list[Load] = []
    for step in kept:
        if step.operation != "load" or step.attributes[0] in number:
            continue
        load = body.loads[step.attributes[0]]
        how = _addressing(load, body.shape, layout, channel)
        if is_main(load, how):
            mains.append(load)
            number[step.attributes[0]] = 0
        elif how is None:
            return None
        else:
            operands.append(EpilogueOperand(step.dtype, how))
            others.append(load)
            number[step.attributes[0]] = len(others)
    return Epilogue(tuple(operands), tuple(_renumbered(kept, number))), mains, tuple(others)

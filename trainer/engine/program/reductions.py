"""Reductions: how the axes of a group become the loop nest of a kernel, one pass or two.

The order of the sum comes from the number of reduced elements alone, in their logical order: `kernels.spec.Reduction`
has the tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.storage import Layout
from trainer.engine.program.body import Load, stand_in
from trainer.engine.program.group import Group
from trainer.engine.program.launch import Address, KernelSource, Launch
from trainer.engine.program.loops import Target, load_dtypes, loop_launch, reduction_block, reduction_launch
from trainer.engine.program.spec import Instruction
from trainer.engine.program.tidy import tidy
from trainer.engine.program.views import identity, is_dense
from trainer.engine.targets.cpu.kernels import moments

if TYPE_CHECKING:
    from trainer.engine.program.lower import Lowering

WIDE_ENOUGH = 8
"""Kept neighbours from which on it pays to run along them rather than along the reduced elements."""

_EMPTY = {"sum": 0, "prod": 1}


@dataclass(frozen=True, slots=True)
class _Terms:
    """What is reduced: a body, its operands, and the instruction of each reduction's term."""

    instructions: list[Instruction]
    loads: list[Load]
    positions: list[int]


def emit_reduction(lowering: Lowering, item: Group) -> None:
    """Add the launches of a group of reductions over the same axes of the same space."""
    first = item.roots[0]
    if first.size == 0:
        return
    axes = first.attributes[0]
    axes = axes if isinstance(axes, tuple) else (axes,)
    shape = item.shape
    names = [root.name.removeprefix("reduce_") for root in item.roots]
    reduced = [axis for axis in axes if shape[axis] != 1]
    length = math.prod(shape[axis] for axis in reduced)
    finals = [lowering.buffer_of(root) for root in item.roots]
    if length == 0:
        for buffer, name in zip(finals, names, strict=True):
            lowering.fill(buffer, _EMPTY[name])
        return
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    terms = _terms(lowering, item)
    if not all(_runs_as_one(load.strides, shape, reduced) for load in terms.loads):
        terms = _lay_out_operands(lowering, shape, reduced, terms) or _lay_out(
            lowering, item, shape, kept, reduced, terms
        )
    order, orientation = _orientation(shape, kept, reduced, terms.loads)
    whole = names[0].startswith("arg")  # positions can't be combined from blocks
    block = max(16, length + 15 & ~15) if whole else reduction_block(length)
    extents = [shape[axis] for axis in order]
    dense = Layout.row_major(len(kept)).strides(tuple(shape[axis] for axis in kept))
    placed = tuple(dense[kept.index(axis)] for axis in order)
    steps = [load.strides[reduced[-1]] if reduced else 0 for load in terms.loads]
    inputs = [
        (load, (*(load.strides[axis] for axis in order), step)) for load, step in zip(terms.loads, steps, strict=True)
    ]
    label = "+".join(root.name for root in item.roots[:3])
    blocks = -(-length // block)
    if names[0] in ("mean", "deviations"):
        return _emit_moments(lowering, item, terms, inputs, extents, placed, length, block, orientation)
    if blocks == 1:
        targets, ends = finals, (*placed, 0)
    else:
        targets = [
            lowering.temporary(first.size * blocks, terms.instructions[position].dtype, "partials")
            for position in terms.positions
        ]
        ends = (*placed, first.size) if orientation == "column" else (*(step * blocks for step in placed), 1)
    outputs = [
        (position, name, buffer, ends) for position, name, buffer in zip(terms.positions, names, targets, strict=True)
    ]
    lowering.emit(
        reduction_launch(
            extents, length, orientation, block, terms.instructions, inputs, outputs, lowering.buffers, label
        )
    )
    if blocks == 1:
        return
    for root, name, partial, final in zip(item.roots, names, targets, finals, strict=True):
        key = stand_in(root)
        lowering.buffers[key] = partial
        lowering.emit(
            reduction_launch(
                extents,
                blocks,
                orientation,
                reduction_block(blocks),
                [Instruction("load", (), partial.dtype, (0,))],
                [(Load(key, 0, ()), ends)],
                [(0, name, final, (*placed, 0))],
                lowering.buffers,
                f"{label} blocks",
            )
        )


def _emit_moments(
    lowering: Lowering,
    item: Group,
    terms: _Terms,
    inputs: Sequence[tuple[Load, tuple[int, ...]]],
    extents: Sequence[int],
    placed: tuple[int, ...],
    length: int,
    block: int,
    orientation: Literal["row", "column"],
) -> None:
    """Mean and deviations in one pass, whichever of them are wanted; blocks are merged by a kernel of their own."""
    first, position = item.roots[0], terms.positions[0]
    found = {root.name.removeprefix("reduce_"): lowering.buffer_of(root) for root in item.roots}
    label = "+".join(root.name for root in item.roots)
    blocks = -(-length // block)
    names = list(found) if blocks == 1 else ["mean", "deviations"]
    targets = [
        found[name] if blocks == 1 else lowering.temporary(first.size * blocks, first.dtype, "partials")
        for name in names
    ]
    ends = (*placed, first.size)
    outputs = [(position, name, buffer, ends) for name, buffer in zip(names, targets, strict=True)]
    lowering.emit(
        reduction_launch(
            extents, length, orientation, block, terms.instructions, inputs, outputs, lowering.buffers, label
        )
    )
    if blocks == 1:
        return
    ends_at = [found.get(name) or lowering.temporary(first.size, first.dtype, name) for name in names]
    source = KernelSource(("moments", first.dtype), lambda name: moments.render_merge(first.dtype, name))
    words: list[int | Address] = [*(Address(buffer) for buffer in (*targets, *ends_at)), first.size, length, block]
    tasks = moments.merge_tasks(first.size)
    lowering.emit(Launch(source, words, tasks, tuple(targets), tuple(ends_at), f"{label} blocks"))


def _terms(lowering: Lowering, item: Group) -> _Terms:
    body = item.body
    assert body is not None
    positions = [body.value(root.inputs[0], identity(body.shape)) for root in item.roots]
    lowering.place(body.loads)
    targets = [
        Target(lowering.buffer_of(root), 0, (), position) for root, position in zip(item.roots, positions, strict=True)
    ]
    instructions, loads, moved = tidy(body, targets)
    return _Terms(instructions, loads, [target.instruction for target in moved])


def _orientation(
    shape: Shape, kept: Sequence[int], reduced: Sequence[int], loads: Sequence[Load]
) -> tuple[list[int], Literal["row", "column"]]:
    """The kept axes from the outermost loop inwards, and which way vectors run, as the largest operand lies best."""
    lead = max(
        (load.strides for load in loads),
        key=lambda strides: sum(extent for extent, step in zip(shape, strides, strict=True) if step),
        default=(0,) * len(shape),
    )
    order = sorted((axis for axis in kept if shape[axis] != 1), key=lambda axis: (-abs(lead[axis]), axis))
    column = (
        bool(order)
        and bool(reduced)
        and abs(lead[reduced[-1]]) != 1
        and lead[order[-1]] == 1
        and shape[order[-1]] >= WIDE_ENOUGH
    )
    return order, "column" if column else "row"


def _lay_out_operands(lowering: Lowering, shape: Shape, reduced: Sequence[int], terms: _Terms) -> _Terms | None:
    """Store only the operands that don't run as one, as a large one that does lies; None where that is more to store.

    The gradient of a global average, one number for each image and channel, meets channels-last images in sums over
    images and pixels: repeating it takes a sixth of the time of storing both sums' terms pixel by pixel.
    """
    astray = [load for load in terms.loads if not _runs_as_one(load.strides, shape, reduced)]
    leads = [load for load in terms.loads if load not in astray and is_dense(shape, load.strides)]
    if not leads or len(astray) > len(set(terms.positions)) or any(load.base is None for load in astray):
        return None
    dtypes, loads = load_dtypes(terms.instructions, terms.loads), list(terms.loads)
    for load in astray:
        assert load.base is not None
        number = terms.loads.index(load)
        key = stand_in(load.base)
        buffer = lowering.buffers[key] = lowering.temporary(math.prod(shape), dtypes[number], "operand")
        body = [Instruction("load", (), dtypes[number], (0,))]
        target = Target(buffer, 0, leads[0].strides, 0)
        lowering.emit(loop_launch(shape, body, [load], [target], lowering.buffers, "operand"))
        loads[number] = Load(key, 0, leads[0].strides)
    return _Terms(terms.instructions, loads, terms.positions)


def _lay_out(
    lowering: Lowering, item: Group, shape: Shape, kept: Sequence[int], reduced: Sequence[int], terms: _Terms
) -> _Terms:
    """Store the terms so that the reduced axes run as one: their order is the logical one, whatever the layout."""
    ones = [axis for axis in range(len(shape)) if axis not in kept and axis not in reduced]
    strides = Layout((*ones, *kept, *reduced)).strides(shape)
    targets: list[Target] = []
    loads: list[Load] = []
    instructions: list[Instruction] = []
    distinct = dict(zip(terms.positions, item.roots, strict=True))
    for position, root in distinct.items():
        buffer = lowering.temporary(math.prod(shape), terms.instructions[position].dtype, "terms")
        key: Node = stand_in(root.inputs[0])
        lowering.buffers[key] = buffer
        targets.append(Target(buffer, 0, strides, position))
        instructions.append(Instruction("load", (), buffer.dtype, (len(loads),)))
        loads.append(Load(key, 0, strides))
    lowering.emit(loop_launch(shape, terms.instructions, terms.loads, targets, lowering.buffers, "terms"))
    stored = list(distinct)
    return _Terms(instructions, loads, [stored.index(position) for position in terms.positions])


def _runs_as_one(strides: tuple[int, ...], shape: Shape, axes: Sequence[int]) -> bool:
    """Whether stepping through `axes` in logical order is stepping through one axis."""
    return all(strides[outer] == strides[inner] * shape[inner] for outer, inner in pairwise(axes))

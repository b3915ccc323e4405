"""Lowers reductions: maps their axes to the loop nest of a kernel, in one pass or two.

The order of the sum depends only on the number of reduced elements, in their logical order: `program.spec.Reduction`
defines the tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from trainer.engine.graph.dtypes import bool_, int64
from trainer.engine.graph.node import Shape
from trainer.engine.graph.storage import Layout
from trainer.engine.program.loops import loop, reduction_block
from trainer.engine.program.spec import Instruction
from trainer.engine.program.views import is_dense
from trainer.engine.program.work import Buffer, Pass, View, Work
from trainer.engine.targets.cpu.kernels import moments
from trainer.engine.targets.cpu.lowering.expansion import Expansion
from trainer.engine.targets.cpu.lowering.launch import Routine
from trainer.engine.targets.cpu.lowering.loops import ENOUGH_TASKS, TASK_ELEMENTS, Terms, reduction_pass
from trainer.engine.targets.cpu.lowering.sources import source_of

WIDE_ENOUGH = 8
"""Minimum number of kept neighbors for which vectors along them beat vectors along the reduced elements."""

_EMPTY = {"sum": 0, "prod": 1}


@dataclass(frozen=True, slots=True)
class _Nest:
    """The loops of both passes: extents of the kept axes from the outermost, strides and number of the results."""

    extents: list[int]
    placed: tuple[int, ...]
    size: int
    length: int
    spec: Pass
    label: str

    @property
    def blocks(self) -> int:
        return -(-self.length // self.spec.block)

    def emit(
        self, expansion: Expansion, spec: Pass, length: int, terms: Terms, targets: Sequence[Buffer],
        strides: tuple[int, ...], label: str,
    ) -> None:  # fmt: skip
        """Adds a pass that stores into `targets`, with `strides` along the kept axes and the blocks."""
        writes = [View(buffer, buffer.dtype, (), strides) for buffer in targets]
        expansion.add(reduction_pass(self.extents, length, spec, terms, writes, label))


def expand_reduction(expansion: Expansion, work: Work) -> None:
    """Adds the passes of reductions over the same axes of the same space."""
    finals = [view.buffer for view in work.writes if view.buffer is not None]
    first, names, axes, shape = work.writes[0], work.spec.operations, work.spec.axes, work.extents
    if first.size == 0:
        return
    reduced = [axis for axis in axes if shape[axis] != 1]
    length = math.prod(shape[axis] for axis in reduced)
    if length == 0:
        for buffer, name in zip(finals, names, strict=True):
            expansion.fill(buffer, _EMPTY[name])
        return
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    terms = Terms(work.body, work.reads, work.stored)
    if not all(_runs_as_one(view.strides, shape, reduced) for view in terms.reads):
        terms = _lay_out_operands(expansion, shape, reduced, terms) or _lay_out(expansion, shape, kept, reduced, terms)
    order, orientation = _orientation(shape, kept, reduced, terms.reads)
    tracks = names[0].startswith("arg")
    is_split = tracks and names[1:] == () and first.size < ENOUGH_TASKS and length > 2 * TASK_ELEMENTS
    block = max(16, length + 15 & ~15) if tracks and not is_split else reduction_block(length)
    dense = Layout.row_major(len(kept)).strides(tuple(shape[axis] for axis in kept))
    nest = _Nest(
        [shape[axis] for axis in order], tuple(dense[kept.index(axis)] for axis in order), first.size, length,
        Pass(names, orientation, block), work.label,
    )  # fmt: skip
    steps = [view.strides[reduced[-1]] if reduced else 0 for view in terms.reads]
    reads = [
        replace(view, strides=(*(view.strides[axis] for axis in order), step))
        for view, step in zip(terms.reads, steps, strict=True)
    ]
    terms = replace(terms, reads=reads)
    if names[0] in ("mean", "deviations"):
        _expand_moments(expansion, nest, terms, dict(zip(names, finals, strict=True)))
    elif is_split:
        _expand_places(expansion, nest, terms, finals[0])
    else:
        _expand_passes(expansion, nest, terms, finals)


def _expand_passes(expansion: Expansion, nest: _Nest, terms: Terms, finals: Sequence[Buffer]) -> None:
    ends = (*nest.placed, 0)
    if nest.blocks == 1:
        return nest.emit(expansion, nest.spec, nest.length, terms, finals, ends, nest.label)
    partials = [
        Buffer(nest.size * nest.blocks, terms.instructions[position].dtype, "partials") for position in terms.stored
    ]
    column = nest.spec.orientation == "column"
    places = (*nest.placed, nest.size) if column else (*(step * nest.blocks for step in nest.placed), 1)
    nest.emit(expansion, nest.spec, nest.length, terms, partials, places, nest.label)
    for name, partial, final in zip(nest.spec.operations, partials, finals, strict=True):
        spec = Pass((name,), nest.spec.orientation, reduction_block(nest.blocks))
        source = View(partial, partial.dtype, (), places)
        again = Terms([Instruction("load", (), partial.dtype, (0,))], [source], [0])
        nest.emit(expansion, spec, nest.blocks, again, [final], ends, f"{nest.label} blocks")


def _expand_places(expansion: Expansion, nest: _Nest, terms: Terms, final: Buffer) -> None:
    """Adds the passes that find the position of the extreme element in few long rows: each block's extreme and its
    position, the extreme of all blocks, and the first position among blocks that have it or NaN.
    """
    (operation,), position = nest.spec.operations, terms.stored[0]
    extreme, dtype = operation.removeprefix("arg"), terms.instructions[position].dtype
    column = nest.spec.orientation == "column"
    strides = (*nest.placed, nest.size) if column else (*(step * nest.blocks for step in nest.placed), 1)
    partials = [Buffer(nest.size * nest.blocks, kind, "partials") for kind in (dtype, int64)]
    both = replace(terms, stored=[position] * 2)
    spec = replace(nest.spec, operations=(extreme, operation))
    nest.emit(expansion, spec, nest.length, both, partials, strides, nest.label)
    values, places = (View(partial, partial.dtype, (), strides) for partial in partials)
    best = View(Buffer(nest.size, dtype, extreme), dtype, (), (*nest.placed, 0))

    def merge(operation: str, terms: Terms, target: Buffer | None, name: str) -> None:
        assert target is not None
        spec = Pass((operation,), nest.spec.orientation, reduction_block(nest.blocks))
        nest.emit(expansion, spec, nest.blocks, terms, [target], best.strides, f"{nest.label} {name}")

    merge(extreme, Terms([Instruction("load", (), dtype, (0,))], [values], [0]), best.buffer, "blocks")
    body = [
        *(Instruction("load", (), kind, (number,)) for number, kind in enumerate((dtype, int64, dtype))),
        Instruction("equal", (0, 2), bool_),
        Instruction("not_equal", (0, 0), bool_),
        Instruction("logical_or", (3, 4), bool_),
        Instruction("constant", (), int64, (nest.length,)),
        Instruction("where", (5, 1, 6), int64),
    ]
    merge("min", Terms(body, [values, places, best], [7]), final, "places")


def _expand_moments(expansion: Expansion, nest: _Nest, terms: Terms, found: dict[str, Buffer]) -> None:
    """Adds one pass for mean and deviations, whichever of them are needed; a separate kernel merges the blocks."""
    position = terms.stored[0]
    label, dtype = "+".join(f"reduce_{name}" for name in found), next(iter(found.values())).dtype
    names = tuple(found) if nest.blocks == 1 else ("mean", "deviations")
    targets = [
        found[name] if nest.blocks == 1 else Buffer(nest.size * nest.blocks, dtype, "partials") for name in names
    ]
    spec, terms = replace(nest.spec, operations=names), replace(terms, stored=[position] * len(names))
    nest.emit(expansion, spec, nest.length, terms, targets, (*nest.placed, nest.size), label)
    if nest.blocks == 1:
        return
    ends = [found.get(name) or Buffer(nest.size, dtype, name) for name in names]
    reads, writes = (tuple(_whole(buffer) for buffer in side) for side in (targets, ends))
    words: tuple[int | View, ...] = (*reads, *writes, nest.size, nest.length, nest.spec.block)
    routine = Routine(source_of(("moments", dtype)), words, moments.merge_tasks(nest.size))
    expansion.add(Work("reduction", routine, reads, writes, f"{label} blocks"))


def _whole(buffer: Buffer) -> View:
    return View(buffer, buffer.dtype, (buffer.size,), (1,))


def _orientation(
    shape: Shape, kept: Sequence[int], reduced: Sequence[int], reads: Sequence[View]
) -> tuple[list[int], Literal["row", "column"]]:
    """The kept axes from the outermost loop inward, and the direction of vectors; the largest operand decides both."""
    lead = max(
        (view.strides for view in reads),
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


def _lay_out_operands(expansion: Expansion, shape: Shape, reduced: Sequence[int], terms: Terms) -> Terms | None:
    """Stores only the operands that don't run as one, in the layout of a large one that does; None if that stores more.

    The gradient of a global average, one number per image and channel, meets channels-last images in sums over images
    and pixels: repeating it takes a sixth of the time of storing the terms of both sums pixel by pixel.
    """
    astray = [view for view in terms.reads if not _runs_as_one(view.strides, shape, reduced)]
    leads = [view for view in terms.reads if view not in astray and is_dense(shape, view.strides)]
    if not leads or len(astray) > len(set(terms.stored)) or any(view.buffer is None for view in astray):
        return None
    reads = list(terms.reads)
    for view in astray:
        target = View(Buffer(math.prod(shape), view.dtype, "operand"), view.dtype, shape, leads[0].strides)
        expansion.copy(view, target, "operand")
        reads[terms.reads.index(view)] = target
    return replace(terms, reads=reads)


def _lay_out(expansion: Expansion, shape: Shape, kept: Sequence[int], reduced: Sequence[int], terms: Terms) -> Terms:
    """Stores the terms so that the reduced axes run as one, in their logical order, independent of the layout."""
    ones = [axis for axis in range(len(shape)) if axis not in kept and axis not in reduced]
    strides = Layout((*ones, *kept, *reduced)).strides(shape)
    distinct = list(dict.fromkeys(terms.stored))
    dtypes = [terms.instructions[position].dtype for position in distinct]
    views = [View(Buffer(math.prod(shape), dtype, "terms"), dtype, shape, strides) for dtype in dtypes]
    expansion.add(loop(shape, terms.instructions, terms.reads, views, distinct, "terms"))
    loads = [Instruction("load", (), dtype, (number,)) for number, dtype in enumerate(dtypes)]
    return Terms(loads, views, [distinct.index(position) for position in terms.stored])


def _runs_as_one(strides: tuple[int, ...], shape: Shape, axes: Sequence[int]) -> bool:
    """Whether stepping through `axes` in logical order equals stepping through a single axis."""
    return all(strides[outer] == strides[inner] * shape[inner] for outer, inner in pairwise(axes))

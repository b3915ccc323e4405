"""Lowers reductions: chooses the direction of their threads, and one pass or two.

The order of the sum depends only on the number of reduced elements, in their logical order: `program.spec.Reduction`
defines the tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.storage import Layout
from trainer.engine.program.loops import collapse, fill, reduction_block
from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import Buffer, KernelSource, Reduce, View, Work, places_of
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ptx.kernels.reduction import MergeKernel, ReductionKernel
from trainer.engine.targets.ptx.launch import Address, Launch, Word
from trainer.engine.targets.ptx.lowering.loops import fits_32_bits, lower_loop

WIDE_ENOUGH = 16
"""Minimum number of kept neighbors for warps to run along them instead of the reduced elements."""

_EMPTY = {"sum": 0, "prod": 1}
Orientation = Literal["row", "column"]


@dataclass(frozen=True, slots=True)
class _Axes:
    """The kept and the reduced space of a reduction: extents, and strides of each operand."""

    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    kept_strides: tuple[tuple[int, ...], ...]
    reduced_strides: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return math.prod(self.kept)

    @property
    def length(self) -> int:
        return math.prod(self.reduced)


def lower_reduction(work: Work, *, flush: bool) -> list[Launch]:
    """Returns the launches of reductions over the same axes of the same space."""
    spec: Reduce = work.spec
    shape, finals = work.extents, work.writes
    if finals[0].size == 0:
        return []
    reduced = [axis for axis in spec.axes if shape[axis] != 1]
    if math.prod(shape[axis] for axis in reduced) == 0:
        pairs = zip(finals, spec.operations, strict=True)
        return [lower_loop(fill(_buffer(view), _EMPTY[name]), flush=flush) for view, name in pairs]
    kept = [axis for axis in range(len(shape)) if axis not in spec.axes]
    order, orientation = _orientation(shape, kept, reduced, work.reads)
    if spec.operations[0] in ("mean", "deviations"):  # their blocks are merged in the order of the results
        order.sort(key=lambda axis: -finals[0].strides[kept.index(axis)])
    written = [tuple(view.strides[kept.index(axis)] for axis in order) for view in finals]
    axes = _axes(shape, order, reduced, work.reads, written)
    whole = spec.operations[0].startswith("arg")  # positions can't be combined from blocks
    length = axes.length
    block = max(16, length + 15 & ~15) if whole else reduction_block(length)
    blocks = -(-length // block)
    single = _Pass(work, axes, orientation, block, flush)
    if blocks == 1:
        return [single.launch(spec.operations, work.body, work.reads, work.stored, finals, [0] * len(finals))]
    if spec.operations[0] in ("mean", "deviations"):
        return _moments(single, spec, finals)
    return _passes(single, spec, finals)


def _buffer(view: View) -> Buffer:
    assert view.buffer is not None
    return view.buffer


def _orientation(
    shape: Sequence[int], kept: Sequence[int], reduced: Sequence[int], reads: Sequence[View]
) -> tuple[list[int], Orientation]:
    """Returns the kept axes from the outermost to the innermost, and the direction of neighboring threads."""
    lead = max(
        (view.strides for view in reads),
        key=lambda strides: sum(extent for extent, step in zip(shape, strides, strict=True) if step),
        default=(0,) * len(shape),
    )
    order = sorted((axis for axis in kept if shape[axis] != 1), key=lambda axis: (-abs(lead[axis]), axis))
    is_column = bool(order) and bool(reduced) and abs(lead[reduced[-1]]) != 1 and lead[order[-1]] == 1
    return order, "column" if is_column and shape[order[-1]] >= WIDE_ENOUGH else "row"


def _axes(
    shape: Sequence[int], kept: Sequence[int], reduced: Sequence[int], reads: Sequence[View],
    written: Sequence[Sequence[int]],
) -> _Axes:  # fmt: skip
    """Collapses both spaces to as few axes as possible; the reduced axes keep their logical order."""
    strides = [[view.strides[axis] for axis in kept] for view in reads] + [list(each) for each in written]
    kept_extents, kept_strides = collapse([shape[axis] for axis in kept], strides, keep_one=False)
    strides = [[view.strides[axis] for axis in reduced] for view in reads]
    extents, reduced_strides = collapse([shape[axis] for axis in reduced], strides)
    return _Axes(
        tuple(kept_extents), tuple(extents), tuple(tuple(each) for each in kept_strides),
        tuple(tuple(each) for each in reduced_strides),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass: `block` terms for each kept element."""

    work: Work
    axes: _Axes
    orientation: Orientation
    block: int
    flush: bool

    @property
    def blocks(self) -> int:
        return -(-self.axes.length // self.block)

    def launch(
        self, operations: Sequence[str], body: Sequence[Instruction], reads: Sequence[View], stored: Sequence[int],
        writes: Sequence[View], block_strides: Sequence[int],
    ) -> Launch:  # fmt: skip
        """The launch of the pass; `block_strides` are the strides of `writes` from block to block."""
        axes, targets = self.axes, tuple(_buffer(view) for view in writes)
        places = places_of(targets)
        kernel = ReductionKernel(
            tuple(operations), self.orientation, len(axes.kept), len(axes.reduced),
            tuple(Operand(view.dtype, "strided", index=view.buffer is None) for view in reads), tuple(body),
            tuple((position, view.dtype) for position, view in zip(stored, writes, strict=True)),
            tuple(view.buffer is not None and not places_of([view.buffer]) & places for view in reads),
            fits_32_bits(self.work), self.flush,
        )  # fmt: skip
        words: list[Word] = [view.offset if view.buffer is None else Address.of(view) for view in (*reads, *writes)]
        words += [*axes.kept[1:], axes.size, *axes.reduced[1:], axes.length, self.block, self.blocks]
        for kept, reduced in zip(axes.kept_strides, axes.reduced_strides, strict=False):
            words += [*kept, *reduced]
        for kept, step in zip(axes.kept_strides[len(reads) :], block_strides, strict=True):
            words += [*kept, step]
        grid = kernel.grid(axes.size, self.blocks)
        return Launch(self.work, KernelSource(kernel, kernel.render), targets, words, grid, kernel.threads)

    def partials(self, dtype: DType) -> tuple[Buffer, tuple[int, ...], int]:
        """A buffer for the results of all blocks, with strides along the kept axes and from block to block."""
        dense, buffer = _dense(self.axes.kept), Buffer(self.axes.size * self.blocks, dtype, "partials")
        if self.orientation == "row":
            return buffer, tuple(step * self.blocks for step in dense), 1
        return buffer, dense, self.axes.size

    def writing(self, strides: Sequence[tuple[int, ...]]) -> _Pass:
        """The pass with different output strides along the kept axes."""
        reads = self.axes.kept_strides[: len(self.axes.reduced_strides)]
        return replace(self, axes=replace(self.axes, kept_strides=(*reads, *strides)))


def _passes(first: _Pass, spec: Reduce, finals: Sequence[View]) -> list[Launch]:
    """Returns the launch for the blocks' results, then one more pass for each output."""
    work = first.work
    found = [first.partials(work.body[position].dtype) for position in work.stored]
    views = [View(buffer, buffer.dtype, (), ()) for buffer, _, _ in found]
    pass_ = first.writing([strides for _, strides, _ in found])
    launches = [pass_.launch(spec.operations, work.body, work.reads, work.stored, views, [step for *_, step in found])]
    ends = first.axes.kept_strides[len(work.reads) :]
    for name, (buffer, strides, step), final, end in zip(spec.operations, found, finals, ends, strict=True):
        axes = _Axes(first.axes.kept, (first.blocks,), (strides, end), ((step,),))
        last = _Pass(work, axes, first.orientation, reduction_block(first.blocks), first.flush)
        body = [Instruction("load", (), buffer.dtype, (0,))]
        source = View(buffer, buffer.dtype, (), ())
        launches.append(last.launch((name,), body, [source], [0], [final], [0]))
    return launches


def _moments(first: _Pass, spec: Reduce, finals: Sequence[View]) -> list[Launch]:
    """Computes mean and deviations of the blocks, even if only one is an output, and merges them; results are dense."""
    work, dtype = first.work, finals[0].dtype
    dense = _dense(first.axes.kept)
    partials = [Buffer(first.axes.size * first.blocks, dtype, "partials") for _ in range(2)]
    views = [View(buffer, dtype, (), ()) for buffer in partials]
    position = work.stored[0]
    pass_ = first.writing([dense] * 2)
    names = ("mean", "deviations")
    launch = pass_.launch(names, work.body, work.reads, [position] * 2, views, [first.axes.size] * 2)
    known = dict(zip(spec.operations, finals, strict=True))
    strides = first.axes.kept_strides[len(work.reads)]
    assert strides == dense, "results lie densely"
    targets = [known.get(name) or View(Buffer(first.axes.size, dtype, name), dtype, (), ()) for name in names]
    kernel = MergeKernel(dtype, first.flush)
    words: list[Word] = [*map(Address.of, (*views, *targets)), first.axes.size, first.axes.length, first.block]
    source, buffers = KernelSource(kernel, kernel.render), tuple(_buffer(view) for view in targets)
    return [launch, Launch(work, source, buffers, words, -(-first.axes.size // kernel.threads), kernel.threads)]


def _dense(extents: Sequence[int]) -> tuple[int, ...]:
    return Layout.row_major(len(extents)).strides(tuple(extents))

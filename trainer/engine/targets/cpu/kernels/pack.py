"""Packs the right-hand operand of a contraction into panels.

A packed operand is [batch][columns / lanes][depth][lanes], lanes = 64 bytes, zero-padded in the last panel; depth
runs over blocks and nested levels in the order in which the contraction reduces. The layout depends only on the
problem, never on tiles. The operand is therefore packed once for each update of the weights and shared by every kernel
that reads them.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [source address, destination address, words of
the specification]. Extents and strides are words, so that one kernel packs operands of any size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count

from trainer.engine.graph.dtypes import DType, bfloat16
from trainer.engine.targets.cpu.kernels.access import Elements, load_vector, store_vector
from trainer.engine.targets.cpu.kernels.loops import tail_mask
from trainer.engine.targets.cpu.kernels.transpose import exchanged
from trainer.engine.targets.ir.expression import MEMORY, lanes_of
from trainer.engine.targets.ir.writer import Integer, Writer, vector

ROWS, STRIP = 64, 32
"""Rows of depth and neighboring panels of a task: a single panel reads distant rows (33 MB: 3.2 ms, strips 1.6)."""

STREAMED_BYTES = 8 << 20
"""Size from which panels bypass the caches, which they would fill; streaming stores read no cache line first."""


@dataclass(frozen=True, slots=True)
class Block:
    """A run of depth: `offset` elements into the source, then `levels` of (extent, source stride), outermost first."""

    offset: int
    levels: tuple[tuple[int, int], ...]

    @property
    def depth(self) -> int:
        return math.prod(extent for extent, _ in self.levels)


@dataclass(frozen=True, slots=True)
class PackSpec:
    """`batch` lists (extent, source stride) of independent matrices; the packed matrices are dense and consecutive.

    With `pair_stride` the source is bfloat16, all strides count its elements, and an element of the packed operand is a
    pair of them, `pair_stride` apart (`products.py`); `dtype` is float32, which has the size of a pair.
    """

    dtype: DType
    batch: tuple[tuple[int, int], ...]
    columns: int
    column_stride: int
    blocks: tuple[Block, ...]
    pair_stride: int = 0

    @property
    def depth(self) -> int:
        return sum(block.depth for block in self.blocks)

    @property
    def panels(self) -> int:
        return -(-self.columns // lanes_of(self.dtype))

    @property
    def is_streamed(self) -> bool:
        return self.size * self.dtype.itemsize >= STREAMED_BYTES

    @property
    def levels(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The levels of each block with nonzero depth, merged into as few as possible."""
        return tuple(merged(block.levels) for block in self.blocks if block.depth)

    @property
    def matrices(self) -> tuple[tuple[int, int], ...]:
        """`batch` without extents of 1."""
        return tuple(level for level in self.batch if level[0] != 1)

    @property
    def coded(self) -> PackKernel:
        """The part of the specification that determines the code."""
        neighbors = 2 if self.pair_stride else 1
        is_transposed = self.column_stride != 1 and self.pair_stride in (0, 1)
        return PackKernel(
            self.dtype, len(self.matrices), self.column_stride == 1, min(self.pair_stride, 2),
            tuple((len(levels), is_transposed and levels[-1][1] == neighbors) for levels in self.levels),
            self.is_streamed,
        )  # fmt: skip

    @property
    def words(self) -> tuple[int, ...]:
        """The words after the addresses."""
        words = [self.columns, self.column_stride, self.pair_stride, self.depth, *chain(*self.matrices)]
        for block, levels in zip((block for block in self.blocks if block.depth), self.levels, strict=True):
            words += [block.offset, *chain(*levels)]
        return tuple(words)

    @property
    def tasks(self) -> int:
        """Number of tasks: one for each panel, or for some rows of several neighboring panels."""
        matrices = math.prod(extent for extent, _ in self.batch)
        if self.coded.is_strip:
            return matrices * -(-self.depth // ROWS) * -(-self.panels // STRIP)
        return matrices * self.panels

    def render(self, name: str) -> str:
        """The module of the kernel."""
        return self.coded.render(name)

    @property
    def matrix_size(self) -> int:
        """Elements of one packed matrix."""
        return self.panels * self.depth * lanes_of(self.dtype)

    @property
    def size(self) -> int:
        """Elements of the packed operand."""
        return self.matrix_size * math.prod(extent for extent, _ in self.batch)


def merged(levels: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The same traversal in as few levels as possible, innermost last; without levels of extent 1."""
    result: list[tuple[int, int]] = []
    for extent, stride in levels:
        if extent == 1:
            continue
        if result and result[-1][1] == extent * stride:
            result[-1] = (result[-1][0] * extent, stride)
        else:
            result.append((extent, stride))
    return tuple(result) or ((1, 0),)


@dataclass(frozen=True, slots=True)
class PackKernel:
    """The parameters that determine the code of a packing; all others are words.

    batch: the number of levels of independent matrices. is_row: columns are neighbors. pairs: 0, or for pairs of
    bfloat16, 1 if the two are neighbors, else 2. blocks: for each block, the number of its levels, and whether elements
    along the innermost level are neighbors to be transposed.
    """

    dtype: DType
    batch: int
    is_row: bool
    pairs: int
    blocks: tuple[tuple[int, bool], ...]
    is_streamed: bool

    @property
    def is_strip(self) -> bool:
        """Whether rows are read in their memory layout, because columns are neighbors and rows equally far apart."""
        return self.is_row and len(self.blocks) == 1 and self.blocks[0][0] == 1

    def render(self, name: str) -> str:
        """The module of the kernel."""
        return _Packing(self).render(name)


class _Packing:
    """Writes one kernel; `memory` accesses packed elements, and the source has elements of the type `element`."""

    def __init__(self, kernel: PackKernel) -> None:
        self.kernel, self.w = kernel, Writer()
        self.memory = Elements(self.w, kernel.dtype)
        self.element = "i16" if kernel.pairs else MEMORY[kernel.dtype.name]
        self.alignment = 2 if kernel.pairs else kernel.dtype.itemsize
        self.lanes = self.memory.lanes
        self.words = count(2)

    def word(self) -> str:
        """The next word of the argument block."""
        return self.w.argument(next(self.words), "i64")

    def level(self) -> tuple[str, str]:
        """The next extent and stride."""
        return self.word(), self.word()

    def render(self, name: str) -> str:
        w, kernel = self.w, self.kernel
        self.columns, self.column_stride, self.pair_stride, self.depth = (self.word() for _ in range(4))
        self.panels, _ = w.divide(w.add(self.columns, self.lanes - 1), self.lanes)
        self.matrices = [self.level() for _ in range(kernel.batch)]
        self.blocks = [(self.word(), [self.level() for _ in range(levels)]) for levels, _ in kernel.blocks]
        if kernel.is_strip:
            self.write_strip()
        else:
            self.write_panel()
        if kernel.is_streamed:
            w.emit("fence seq_cst")  # no weaker fence orders streaming stores
        return w.module(name, scratch=True)

    def store(self, value: str, target: str) -> None:
        """Stores a row of a panel."""
        store_vector(self.w, self.kernel.dtype, value, target, self.lanes, streamed=self.kernel.is_streamed)

    def matrix(self, index: Integer) -> Integer:
        """The offset of a matrix in the source."""
        offset: Integer = 0
        for extent, stride in reversed(self.matrices):
            index, place = self.w.divide(index, extent)
            offset = self.w.add(offset, self.w.multiply(place, stride))
        return offset

    def write_strip(self) -> None:
        """Writes ROWS rows of STRIP panels; each row is read in its memory layout."""
        w, lanes, depth = self.w, self.lanes, self.depth
        [(first, [(_, stride)])] = self.blocks
        parts, strips = (
            w.divide(w.add(total, part - 1), part)[0] for total, part in ((depth, ROWS), (self.panels, STRIP))
        )
        matrix, part, strip = w.unravel("%task", parts, strips)
        source = w.pointer(w.argument(0), w.add(self.matrix(matrix), first), self.element)
        panel_size = w.multiply(depth, lanes)
        target = self.memory.at(w.argument(1), w.multiply(matrix, w.multiply(self.panels, panel_size)))
        first_row, last_row = w.share(part, ROWS, depth)
        first_panel, last_panel = w.share(strip, STRIP, self.panels)
        whole, rest = w.divide(self.columns, lanes)
        mask = tail_mask(w, rest, lanes)
        has_rest = w.value(f"icmp sgt i64 {last_panel}, {whole}", "c")

        def move(row: str, there: str, panel: Integer, active: str | None) -> None:
            here = w.pointer(row, w.multiply(panel, lanes), self.element)
            place = self.memory.at(there, w.multiply(panel, panel_size))
            self.store(self.gathered(here, active, ()), place)

        with w.loop(first_row, last_row) as row:
            here = w.pointer(source, w.multiply(row.index, stride), self.element)
            there = self.memory.at(target, w.multiply(row.index, lanes))
            with w.loop(first_panel, w.minimum(last_panel, whole)) as panel:
                move(here, there, panel.index, None)
            with w.when(has_rest):
                move(here, there, whole, mask)

    def write_panel(self) -> None:
        """Writes a panel; columns that the last panel of a matrix lacks are zeros."""
        w, lanes = self.w, self.lanes
        matrix, panel = w.divide("%task", self.panels)
        first = w.multiply(panel, lanes)
        offset = w.add(self.matrix(matrix), w.multiply(first, self.column_stride))
        source = w.pointer(w.argument(0), offset, self.element)
        target = self.memory.at(w.argument(1), w.multiply("%task", w.multiply(self.depth, lanes)))
        self.active = w.minimum(w.subtract(self.columns, first), lanes)
        mask = tail_mask(w, self.active, lanes)
        columns: tuple[Integer, ...] = ()
        if not self.kernel.is_row:
            last = w.subtract(self.active, 1)
            columns = tuple(w.multiply(w.minimum(lane, last), self.column_stride) for lane in range(lanes))
        for (start, levels), (_, transposed) in zip(self.blocks, self.kernel.blocks, strict=True):
            here = w.pointer(source, start, self.element)
            self.write_levels(levels, transposed, here, target, mask, columns)
            target = self.memory.at(target, self.elements(levels))

    def write_levels(
        self, levels: Sequence[tuple[str, str]], transposed: bool, source: str, target: str, mask: str,
        columns: Sequence[Integer],
    ) -> None:  # fmt: skip
        w, lanes = self.w, self.lanes
        (extent, stride), *inner = levels
        size = self.elements(inner)

        def places(index: Integer) -> tuple[str, str]:
            here = w.pointer(source, w.multiply(index, stride), self.element)
            return here, self.memory.at(target, w.multiply(index, size))

        if inner:
            with w.loop(0, extent) as loop:
                self.write_levels(inner, transposed, *places(loop.index), mask, columns)
            return
        whole: Integer = 0
        if transposed:
            whole = w.value(f"and i64 {extent}, {-lanes}", "i")
            with w.loop(0, whole, lanes) as loop:
                w.run(self.define_transpose(), places(loop.index), (self.column_stride, self.active))
        with w.loop(whole, extent) as loop:
            here, there = places(loop.index)
            self.store(self.gathered(here, mask, columns), there)

    def elements(self, levels: Sequence[tuple[str, str]]) -> Integer:
        """Elements of a panel in the rows of these levels."""
        rows: Integer = 1
        for extent, _ in levels:
            rows = self.w.multiply(rows, extent)
        return self.w.multiply(rows, self.lanes)

    def gathered(self, source: str, mask: str | None, columns: Sequence[Integer]) -> str:
        """One row of a panel: the columns of the mask (None: all), then zeros; distant halves are read as two rows."""
        kernel = self.kernel
        if not kernel.pairs or (not kernel.is_row and kernel.pairs == 1):
            return self.row(kernel.dtype, source, mask, columns)
        second = self.w.pointer(source, self.pair_stride, "i16")
        halves = (self.row(bfloat16, start, mask, columns) for start in (source, second))
        return interleaved(self.w, *halves)

    def row(self, dtype: DType, source: str, mask: str | None, columns: Sequence[Integer]) -> str:
        """The elements at `columns` (none: neighbors) in the mask, then zeros."""
        w, element = self.w, MEMORY[dtype.name]
        if not columns:
            return load_vector(w, dtype, source, self.lanes, mask)
        kind, row = vector(element, self.lanes), "zeroinitializer"
        for lane, column in enumerate(columns):
            value = w.value(f"load {element}, ptr {w.pointer(source, column, self.element)}, align {self.alignment}")
            row = w.value(f"insertelement {kind} {row}, {element} {value}, i32 {lane}")
        return masked(w, kind, self.lanes, str(mask), row)

    def define_transpose(self) -> str:
        """Defines `transpose(source, target, stride, active)` of a square, contiguous along depth in the source."""
        kernel, lanes = self.kernel, self.lanes

        def build(inner: Writer) -> None:
            memory, rows, place = Elements(inner, kernel.dtype), [], "%source"
            mask = tail_mask(inner, "%active", lanes)
            for lane in range(lanes):
                if lane:
                    inside = inner.value(f"icmp ugt i64 %active, {lane}", "c")
                    step = inner.value(f"select i1 {inside}, i64 %stride, i64 0", "i")
                    place = inner.pointer(place, step, self.element)
                rows.append(load_vector(inner, kernel.dtype, place, lanes, alignment=self.alignment))
            for lane, value in enumerate(exchanged(inner, memory.kind, rows)):
                target, value = memory.at("%target", lane * lanes), masked(inner, memory.kind, lanes, mask, value)
                store_vector(inner, kernel.dtype, value, target, lanes, streamed=kernel.is_streamed)

        parameters = [("ptr noalias", "%source"), ("ptr noalias", "%target"), ("i64", "%stride"), ("i64", "%active")]
        return self.w.function("transpose", parameters, build)


def masked(writer: Writer, kind: str, lanes: int, mask: str, value: str) -> str:
    """The lanes of `value` in the mask; the others are zeros."""
    return writer.value(f"select {vector('i1', lanes)} {mask}, {kind} {value}, {kind} zeroinitializer")


def interleaved(writer: Writer, low: str, high: str) -> str:
    """Sixteen pairs whose halves are `low` and `high`, vectors of bfloat16."""
    first, second = (writer.value(f"zext <16 x i16> {half} to <16 x i32>") for half in (low, high))
    shifted = writer.value(f"shl <16 x i32> {second}, splat (i32 16)")
    return writer.value(f"bitcast <16 x i32> {writer.value(f'or <16 x i32> {shifted}, {first}')} to <16 x float>")

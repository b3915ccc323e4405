"""Packing the right-hand operand of a contraction into panels.

A packed operand is [batch][columns / lanes][depth][lanes], lanes = 64 bytes, zero-padded in the last panel; depth
runs over blocks and nested levels in the order in which the contraction reduces. The layout depends on the problem
alone, never on tiles, so that it can be made once for each update of the weights and shared by every kernel that
reads them.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [source address, destination address].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType, bfloat16
from trainer.engine.targets.cpu.kernels.access import Elements, load_vector, store_vector
from trainer.engine.targets.cpu.kernels.transpose import exchanged
from trainer.engine.targets.ir.expression import MEMORY, lanes_of
from trainer.engine.targets.ir.writer import Integer, Writer, vector

ROWS, STRIP = 64, 32
"""Rows of depth, and neighboring panels of a task: a panel alone reads far rows (33 MB: 3.2 ms, strips 1.6)."""

STREAMED_BYTES = 8 << 20
"""Panels from so many bytes on are stored past the caches, which would hold nothing else: no line is read first."""


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
    """`batch` lists (extent, source stride) of independent matrices; the packed ones lie densely one after the
    other.

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
    def source_element(self) -> str:
        """The type of the source's elements in memory."""
        return "i16" if self.pair_stride else MEMORY[self.dtype.name]

    @property
    def alignment(self) -> int:
        """Bytes that every element of the source is aligned to."""
        return 2 if self.pair_stride else self.dtype.itemsize

    @property
    def panels(self) -> int:
        return -(-self.columns // lanes_of(self.dtype))

    @property
    def row_stride(self) -> int | None:
        """Source elements between rows of depth, where columns are neighbors and rows are equally far apart."""
        if self.column_stride != 1 or len(self.blocks) != 1 or not self.depth:
            return None
        levels = merged(self.blocks[0].levels)
        return levels[0][1] if len(levels) == 1 else None

    @property
    def is_streamed(self) -> bool:
        return self.size * self.dtype.itemsize >= STREAMED_BYTES

    @property
    def tasks(self) -> int:
        """One task for each panel, or for some rows of several panels side by side."""
        matrices = math.prod(extent for extent, _ in self.batch)
        if self.row_stride is not None:
            return matrices * -(-self.depth // ROWS) * -(-self.panels // STRIP)
        return matrices * self.panels

    def render(self, name: str) -> str:
        """The module of the kernel."""
        return _Packing(self).render(name)

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


class _Packing:
    """A kernel while it is written; `memory` are packed elements, those of the source are of the type `element`."""

    def __init__(self, spec: PackSpec) -> None:
        self.spec, self.w = spec, Writer()
        self.memory, self.element = Elements(self.w, spec.dtype), spec.source_element
        self.lanes = self.memory.lanes

    def render(self, name: str) -> str:
        if self.spec.row_stride is None:
            self.write_task()
        else:
            self.write_strip(self.spec.row_stride)
        if self.spec.is_streamed:
            self.w.emit("fence seq_cst")  # streaming stores are ordered by nothing less
        return self.w.module(name, scratch=True)

    def store(self, value: str, target: str) -> None:
        """Store a row of a panel."""
        store_vector(self.w, self.spec.dtype, value, target, self.lanes, streamed=self.spec.is_streamed)

    def matrix(self, index: Integer) -> Integer:
        """Where a matrix begins in the source."""
        offset: Integer = 0
        for extent, stride in reversed(self.spec.batch):
            index, place = self.w.divide(index, extent)
            offset = self.w.add(offset, self.w.multiply(place, stride))
        return offset

    def write_strip(self, stride: int) -> None:
        """ROWS rows of STRIP panels: each row is read as it lies."""
        spec, w, lanes = self.spec, self.w, self.lanes
        matrix, part, strip = w.unravel("%task", -(-spec.depth // ROWS), -(-spec.panels // STRIP))
        offset = w.add(self.matrix(matrix), spec.blocks[0].offset)
        source = w.pointer(w.argument(0), offset, self.element)
        target = self.memory.at(w.argument(1), w.multiply(matrix, spec.matrix_size))
        first_row, first_panel = w.multiply(part, ROWS), w.multiply(strip, STRIP)
        last_row = w.minimum(w.add(first_row, ROWS), spec.depth)
        last_panel = w.minimum(w.add(first_panel, STRIP), spec.panels)
        whole = spec.columns // lanes

        def move(row: str, there: str, panel: Integer, active: int) -> None:
            here = w.pointer(row, w.multiply(panel, lanes), self.element)
            place = self.memory.at(there, w.multiply(panel, spec.depth * lanes))
            self.store(self.gathered(here, active), place)

        with w.loop(first_row, last_row) as row:
            here = w.pointer(source, w.multiply(row.index, stride), self.element)
            there = self.memory.at(target, w.multiply(row.index, lanes))
            if whole:
                with w.loop(first_panel, w.minimum(last_panel, whole)) as panel:
                    move(here, there, panel.index, lanes)
            if whole < spec.panels:
                with w.when(w.value(f"icmp eq i64 {last_panel}, {spec.panels}", "c")):
                    move(here, there, whole, spec.columns % lanes)

    def write_task(self) -> None:
        """A panel, which may be the last one of its matrix."""
        spec, w = self.spec, self.w
        matrix, panel = w.divide("%task", spec.panels)
        offset = w.add(self.matrix(matrix), w.multiply(panel, self.lanes * spec.column_stride))
        source = w.pointer(w.argument(0), offset, self.element)
        destination = self.memory.at(w.argument(1), w.multiply("%task", spec.depth * self.lanes))
        tail = spec.columns % self.lanes
        if not tail or spec.panels == 1:
            return self.write_panel(source, destination, tail or self.lanes)
        last = w.value(f"icmp eq i64 {panel}, {spec.panels - 1}", "c")
        with w.when(last):
            self.write_panel(source, destination, tail)
        with w.unless(last):
            self.write_panel(source, destination, self.lanes)

    def write_panel(self, source: str, destination: str, active: int) -> None:
        position = 0
        for block in self.spec.blocks:
            if block.depth:
                start = self.w.pointer(source, block.offset, self.element)
                target = self.memory.at(destination, position * self.lanes)
                self.write_levels(merged(block.levels), start, target, active)
            position += block.depth

    def write_levels(self, levels: tuple[tuple[int, int], ...], source: str, target: str, active: int) -> None:
        spec, w, lanes = self.spec, self.w, self.lanes
        (extent, stride), *inner = levels
        rows = math.prod(size for size, _ in inner)

        def places(index: Integer) -> tuple[str, str]:
            here = w.pointer(source, w.multiply(index, stride), self.element)
            return here, self.memory.at(target, w.multiply(index, rows * lanes))

        if inner:
            with w.loop(0, extent) as loop:
                self.write_levels(tuple(inner), *places(loop.index), active)
            return
        neighbors = stride == 2 and spec.pair_stride == 1 if spec.pair_stride else stride == 1
        transposed = extent - extent % lanes if neighbors and spec.column_stride != 1 else 0
        if transposed:
            with w.loop(0, transposed, lanes) as loop:
                pointers = places(loop.index)
                w.run(self.define_transpose(active), pointers)
        if transposed < extent:
            with w.loop(transposed, extent) as loop:
                here, there = places(loop.index)
                self.store(self.gathered(here, active), there)

    def gathered(self, source: str, active: int) -> str:
        """One row of a panel: `active` neighboring columns, then zeros."""
        spec = self.spec
        if not spec.pair_stride or (spec.column_stride != 1 and spec.pair_stride == 1):
            return self.row(spec.dtype, source, active)
        halves = []  # they are apart: two rows, interleaved
        for half in range(2):
            start = self.w.pointer(source, half * spec.pair_stride, "i16")
            halves.append(self.row(bfloat16, start, active))
        return interleaved(self.w, *halves)

    def row(self, dtype: DType, source: str, active: int) -> str:
        """`active` elements `column_stride` apart, then zeros."""
        spec, w, element = self.spec, self.w, MEMORY[dtype.name]
        if spec.column_stride == 1:
            return load_vector(w, dtype, source, self.lanes, active)
        row = "zeroinitializer"
        for lane in range(active):
            pointer = w.pointer(source, lane * spec.column_stride, self.element)
            value = w.value(f"load {element}, ptr {pointer}, align {spec.alignment}")
            row = w.value(f"insertelement {vector(element, self.lanes)} {row}, {element} {value}, i32 {lane}")
        return row

    def define_transpose(self, active: int) -> str:
        """Define `transpose(source, target)` of a square, contiguous along depth in the source, for all blocks."""
        spec, lanes = self.spec, self.lanes

        def build(inner: Writer) -> None:
            memory, rows = Elements(inner, spec.dtype), ["zeroinitializer"] * lanes
            for lane in range(lanes):
                pointer = inner.pointer("%source", lane * spec.column_stride, self.element)
                if lane < active:
                    rows[lane] = load_vector(inner, spec.dtype, pointer, lanes, alignment=spec.alignment)
            for lane, value in enumerate(exchanged(inner, memory.kind, rows)):
                target = memory.at("%target", lane * lanes)
                store_vector(inner, spec.dtype, value, target, lanes, streamed=spec.is_streamed)

        parameters = [("ptr noalias", "%source"), ("ptr noalias", "%target")]
        return self.w.function(f"transpose_{active}", parameters, build)


def interleaved(writer: Writer, low: str, high: str) -> str:
    """Sixteen pairs of which `low` and `high`, vectors of bfloat16, are the halves."""
    first, second = (writer.value(f"zext <16 x i16> {half} to <16 x i32>") for half in (low, high))
    shifted = writer.value(f"shl <16 x i32> {second}, splat (i32 16)")
    return writer.value(f"bitcast <16 x i32> {writer.value(f'or <16 x i32> {shifted}, {first}')} to <16 x float>")

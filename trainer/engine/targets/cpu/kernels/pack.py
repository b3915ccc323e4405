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
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.cpu.kernels.transpose import exchanged
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer, vector

ROWS, STRIP = 64, 32
"""Rows of depth, and panels side by side, of a task whose columns are neighbours: a panel alone would read 64 bytes of
each of many far rows (33 MB take 3.2 ms so, and 1.6 by strips).
"""

STREAMED_BYTES = 8 << 20
"""Panels from so many bytes on are stored past the caches: nothing else would be left in them, and no line has to be
read before it is written.
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A run of depth: `offset` elements into the source, then nested `levels` of (extent, source stride), outermost
    first.
    """

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


def tasks(spec: PackSpec) -> int:
    """One task for each panel, or for some rows of several panels side by side."""
    matrices = math.prod(extent for extent, _ in spec.batch)
    if _row_stride(spec) is not None:
        return matrices * -(-spec.depth // ROWS) * -(-spec.panels // STRIP)
    return matrices * spec.panels


def _row_stride(spec: PackSpec) -> int | None:
    """Source elements between rows of depth, where columns are neighbours and rows are equally far apart."""
    if spec.column_stride != 1 or len(spec.blocks) != 1 or not spec.depth:
        return None
    levels = merged(spec.blocks[0].levels)
    return levels[0][1] if len(levels) == 1 else None


def render(spec: PackSpec, name: str) -> str:
    """The module of a packing kernel."""
    writer = Writer()
    if _row_stride(spec) is None:
        _render_panel(writer, spec)
    else:
        _render_strip(writer, spec)
    if _is_streamed(spec):
        writer.emit("fence seq_cst")  # streaming stores are ordered by nothing less
    return writer.module(name, scratch=True)


def _is_streamed(spec: PackSpec) -> bool:
    return spec.size * spec.dtype.itemsize >= STREAMED_BYTES


def _store(writer: Writer, spec: PackSpec, value: str, target: str) -> None:
    """A row of a panel."""
    store_vector(writer, spec.dtype, value, target, lanes_of(spec.dtype), streamed=_is_streamed(spec))


def _matrix(writer: Writer, spec: PackSpec, index: Integer) -> Integer:
    """Where a matrix begins in the source."""
    offset: Integer = 0
    for extent, stride in reversed(spec.batch):
        index, place = writer.divide(index, extent)
        offset = writer.add(offset, writer.multiply(place, stride))
    return offset


def _render_strip(writer: Writer, spec: PackSpec) -> None:
    """ROWS rows of STRIP panels: each row is read as it lies."""
    stride, lanes, element = _row_stride(spec), lanes_of(spec.dtype), MEMORY[spec.dtype.name]
    assert stride is not None
    matrix, part, strip = writer.unravel("%task", -(-spec.depth // ROWS), -(-spec.panels // STRIP))
    offset = writer.add(_matrix(writer, spec, matrix), spec.blocks[0].offset)
    source = writer.pointer(writer.argument(0), offset, spec.source_element)
    target = writer.pointer(writer.argument(1), writer.multiply(matrix, spec.matrix_size), element)
    first_row, first_panel = writer.multiply(part, ROWS), writer.multiply(strip, STRIP)
    last_row = writer.minimum(writer.add(first_row, ROWS), spec.depth)
    last_panel = writer.minimum(writer.add(first_panel, STRIP), spec.panels)
    whole = spec.columns // lanes

    def move(row: str, there: str, panel: Integer, active: int) -> None:
        here = writer.pointer(row, writer.multiply(panel, lanes), spec.source_element)
        place = writer.pointer(there, writer.multiply(panel, spec.depth * lanes), element)
        _store(writer, spec, _gather(writer, spec, here, active), place)

    with writer.loop(first_row, last_row) as row:
        here = writer.pointer(source, writer.multiply(row.index, stride), spec.source_element)
        there = writer.pointer(target, writer.multiply(row.index, lanes), element)
        if whole:
            with writer.loop(first_panel, writer.minimum(last_panel, whole)) as panel:
                move(here, there, panel.index, lanes)
        if whole < spec.panels:
            with writer.when(writer.value(f"icmp eq i64 {last_panel}, {spec.panels}", "c")):
                move(here, there, whole, spec.columns % lanes)


def _render_panel(writer: Writer, spec: PackSpec) -> None:
    element, lanes = MEMORY[spec.dtype.name], lanes_of(spec.dtype)
    matrix, panel = writer.divide("%task", spec.panels)
    offset = writer.add(_matrix(writer, spec, matrix), writer.multiply(panel, lanes * spec.column_stride))
    source = writer.pointer(writer.argument(0), offset, spec.source_element)
    destination = writer.pointer(writer.argument(1), writer.multiply("%task", spec.depth * lanes), element)
    tail = spec.columns % lanes
    if not tail:
        _write_panel(writer, spec, source, destination, lanes)
    elif spec.panels == 1:
        _write_panel(writer, spec, source, destination, tail)
    else:
        last = writer.value(f"icmp eq i64 {panel}, {spec.panels - 1}", "c")
        with writer.when(last):
            _write_panel(writer, spec, source, destination, tail)
        with writer.when(writer.value(f"xor i1 {last}, true", "c")):
            _write_panel(writer, spec, source, destination, lanes)


def _write_panel(writer: Writer, spec: PackSpec, source: str, destination: str, active: int) -> None:
    element, lanes = MEMORY[spec.dtype.name], lanes_of(spec.dtype)
    position = 0
    for block in spec.blocks:
        if block.depth:
            start = writer.pointer(source, block.offset, spec.source_element)
            target = writer.pointer(destination, position * lanes, element)
            _write_levels(writer, spec, merged(block.levels), start, target, active)
        position += block.depth


def _write_levels(
    writer: Writer, spec: PackSpec, levels: tuple[tuple[int, int], ...], source: str, target: str, active: int
) -> None:
    element, lanes = MEMORY[spec.dtype.name], lanes_of(spec.dtype)
    (extent, stride), *inner = levels
    if inner:
        below = math.prod(size for size, _ in inner)
        with writer.loop(0, extent) as loop:
            here = writer.pointer(source, writer.multiply(loop.index, stride), spec.source_element)
            there = writer.pointer(target, writer.multiply(loop.index, below * lanes), element)
            _write_levels(writer, spec, tuple(inner), here, there, active)
        return
    neighbours = stride == 2 and spec.pair_stride == 1 if spec.pair_stride else stride == 1
    transposed = extent - extent % lanes if neighbours and spec.column_stride != 1 else 0
    if transposed:
        with writer.loop(0, transposed, lanes) as loop:
            here = writer.pointer(source, writer.multiply(loop.index, stride), spec.source_element)
            there = writer.pointer(target, writer.multiply(loop.index, lanes), element)
            square = _define_transpose(writer, spec, active)
            writer.run(square, (here, there))
    if transposed < extent:
        with writer.loop(transposed, extent) as loop:
            here = writer.pointer(source, writer.multiply(loop.index, stride), spec.source_element)
            there = writer.pointer(target, writer.multiply(loop.index, lanes), element)
            _store(writer, spec, _gather(writer, spec, here, active), there)


def _gather(writer: Writer, spec: PackSpec, source: str, active: int) -> str:
    """One row of a panel: `active` neighbouring columns, then zeros."""
    if spec.pair_stride and (spec.column_stride == 1 or spec.pair_stride != 1):  # halves apart: two rows, interleaved
        halves = []
        for half in range(2):
            start = writer.pointer(source, half * spec.pair_stride, "i16")
            halves.append(_row(writer, spec, bfloat16, start, active))
        return interleaved(writer, *halves)
    return _row(writer, spec, spec.dtype, source, active)


def _row(writer: Writer, spec: PackSpec, dtype: DType, source: str, active: int) -> str:
    """`active` elements `column_stride` apart, then zeros."""
    element, lanes = MEMORY[dtype.name], lanes_of(spec.dtype)
    if spec.column_stride == 1:
        return load_vector(writer, dtype, source, lanes, active)
    row = "zeroinitializer"
    for lane in range(active):
        pointer = writer.pointer(source, lane * spec.column_stride, spec.source_element)
        value = writer.value(f"load {element}, ptr {pointer}, align {spec.alignment}")
        row = writer.value(f"insertelement {vector(element, lanes)} {row}, {element} {value}, i32 {lane}")
    return row


def interleaved(writer: Writer, low: str, high: str) -> str:
    """Sixteen pairs of which `low` and `high`, vectors of bfloat16, are the halves."""
    halves = (writer.value(f"zext <16 x i16> {half} to <16 x i32>") for half in (low, high))
    first, second = halves
    shifted = writer.value(f"shl <16 x i32> {second}, splat (i32 16)")
    return writer.value(f"bitcast <16 x i32> {writer.value(f'or <16 x i32> {shifted}, {first}')} to <16 x float>")


def _define_transpose(writer: Writer, spec: PackSpec, active: int) -> str:
    """Define `transpose(source, target)` of a square: the same code for every block of a panel."""
    parameters = [("ptr noalias", "%source"), ("ptr noalias", "%target")]
    name = f"transpose_{active}"
    return writer.function(name, parameters, lambda inner: _transpose(inner, spec, "%source", "%target", active))


def _transpose(writer: Writer, spec: PackSpec, source: str, target: str, active: int) -> None:
    """A square of lanes x lanes elements, contiguous along depth in the source."""
    element, lanes = MEMORY[spec.dtype.name], lanes_of(spec.dtype)
    kind = vector(element, lanes)
    rows = []
    for lane in range(lanes):
        pointer = writer.pointer(source, lane * spec.column_stride, spec.source_element)
        whole = load_vector(writer, spec.dtype, pointer, lanes, alignment=spec.alignment) if lane < active else ""
        rows.append(whole or "zeroinitializer")
    rows = exchanged(writer, kind, rows)
    for lane, value in enumerate(rows):
        _store(writer, spec, value, writer.pointer(target, lane * lanes, element))

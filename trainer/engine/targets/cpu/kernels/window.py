"""The maximum of each window, or its position, with strides and the extents of an image baked in.

Vectors run along channels where those are contiguous (channels-last), else along output columns. A window position in
the padding is replaced with the nearest one inside the image, which the window contains anyway. Reading it twice does
not change the maximum, so the inner loop has no masks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType, int32, int64
from trainer.engine.targets.cpu.kernels import loops
from trainer.engine.targets.cpu.kernels.access import gather, load_operand, store_operand
from trainer.engine.targets.ir.expression import LANES, MEMORY, compute_type
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.vectors import splat
from trainer.engine.targets.ir.writer import Writer, vector

_TASK_READS = 65536
_UNROLLED = 25
_WIDE = vector("i64", LANES)
Point = tuple[str, str]
"""An address in the image (a pointer, or lanes of them) and its position h * W + w (a scalar, or lanes)."""

Candidate = tuple[str, str]
"""Lanes of elements, and their positions h * W + w."""


@dataclass(frozen=True, slots=True)
class WindowArgmax:
    """indices[n, c, oh, ow] (int32) = h * W + w of the first maximum of a window of x[N, C, H, W].

    NaN is greater than any number; padding never wins. `padding` is ((before, after), (before, after)) for H and W;
    strides are in elements along the logical axes. Addresses: (x, indices).
    """

    dtype: DType
    shape: tuple[int, int, int, int]
    window: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    dilation: tuple[int, int]
    input_strides: tuple[int, int, int, int]
    output_strides: tuple[int, int, int, int]
    values: bool = False
    """Whether the maximum itself is stored instead of its position."""

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        height, width = (
            (size + low + high - dilation * (window - 1) - 1) // stride + 1
            for size, (low, high), dilation, window, stride in zip(
                self.shape[2:], self.padding, self.dilation, self.window, self.strides, strict=True
            )
        )
        return (*self.shape[:2], height, width)

    @property
    def vector_axis(self) -> int:
        """The logical axis of the output along which vectors run."""
        return 1 if self.input_strides[1] == 1 and self.shape[1] > 1 else 3

    @property
    def row_axes(self) -> tuple[int, ...]:
        """The other axes, in the order of the output's memory."""
        others = [axis for axis in range(4) if axis != self.vector_axis]
        return tuple(sorted(others, key=lambda axis: -self.output_strides[axis]))

    @property
    def rows(self) -> int:
        return math.prod(self.output_shape[axis] for axis in self.row_axes)

    @property
    def rows_per_task(self) -> int:
        reads = self.output_shape[self.vector_axis] * math.prod(self.window)
        return max(1, _TASK_READS // max(1, reads))

    @property
    def tasks(self) -> int:
        return 0 if 0 in self.output_shape else -(-self.rows // self.rows_per_task)

    def render(self, name: str) -> str:
        """The module text, exporting `void name(ptr arguments, i64 task)`; arguments: x, indices, and `rows`."""
        for size, (low, high), dilation, window in zip(
            self.shape[2:], self.padding, self.dilation, self.window, strict=True
        ):
            # a window without an element would have no maximum
            if max(low, high) > dilation * (window - 1) or (max(low, high) > 0 and size < dilation):
                raise ValueError(f"windows of {self.window} with padding {self.padding} may hold padding only")
        return _WindowArgmax(self).render(name)


class _WindowArgmax:
    """Writes one kernel."""

    def __init__(self, kernel: WindowArgmax) -> None:
        self.kernel, self.writer = kernel, Writer()
        self.along_channels = kernel.vector_axis == 1
        self.element = MEMORY[kernel.dtype.name]
        self.value_type, self.position_type = compute_type(kernel.dtype), vector("i32", LANES)
        self.step = kernel.output_strides[kernel.vector_axis]
        self.source = Operand(kernel.dtype, "contiguous")
        self.target = Operand(kernel.dtype if kernel.values else int32, "contiguous" if self.step == 1 else "strided")

    def render(self, name: str) -> str:
        writer, kernel = self.writer, self.kernel
        bases = [loops.word(writer, place, "ptr") for place in range(2)]
        # two index operands carry the output row and column of each row of the loop
        axis_operand = Operand(int64, "broadcast", index=True)
        axes = kernel.row_axes
        source_strides = [kernel.input_strides[axis] if axis < 2 else 0 for axis in axes]
        per_axis = [[int(axis == which) for axis in axes] for which in (2, 3)]
        arguments = loops.Arguments(
            [self.source, self.target, axis_operand, axis_operand],
            [*bases, "0", "0"],
            [kernel.output_shape[axis] for axis in axes],
            [source_strides, [kernel.output_strides[axis] for axis in axes], *per_axis],
        )
        first, last = loops.bounds(writer, "%task", kernel.rows_per_task, loops.word(writer, 2))
        with loops.each_point(writer, arguments, len(axes), first, last) as places:
            self._row(places)
        return writer.module(name)

    def _row(self, places: list[str]) -> None:
        kernel = self.kernel
        source, target, output_row, output_column = places
        rows = self._inside(0, output_row, "i64")
        unrolled = math.prod(kernel.window) <= _UNROLLED
        columns = self._inside(1, output_column, "i64") if self.along_channels else []
        known = [self._point(source, row, column) for row in rows for column in columns] if unrolled else []
        for part in loops.vectors(self.writer, 0, kernel.output_shape[kernel.vector_axis], "window"):
            across = columns or self._inside(1, self._lane_columns(part), _WIDE)
            if unrolled:
                pairs = ((row, column) for row in rows for column in across)
                points = known or (self._point(source, row, column) for row, column in pairs)
                best = self._first_best(self._read(point, part) for point in points)
            else:
                best = self._search_loop(source, rows, across, part)
            if kernel.values and kernel.dtype.is_float:
                # comparisons keep the bits: in programs that flush subnormals, only arithmetic flushes them
                best = self.writer.apply("canonicalize", self.value_type, best)
            store_operand(self.writer, self.target, target, part, best, self.step)

    def _lane_columns(self, part: loops.Part) -> str:
        """Output columns of the lanes of a part, clamped to the last column."""
        writer = self.writer
        lanes = writer.value(f"add {_WIDE} {loops.broadcast(writer, 'i64', part.position)}, {loops.IOTA['i64']}")
        return writer.apply("smin", _WIDE, lanes, splat("i64", str(self.kernel.output_shape[3] - 1)))

    def _inside(self, axis: int, output: str, kind: str) -> list[str]:
        """Image coordinates along `axis` for each window position of `output`, padding is replaced by the nearest.

        `kind` is i64, or a vector of it. Replaced positions stay on the window's grid, which matters with dilation.
        """
        writer, kernel = self.writer, self.kernel
        stride, dilation, size = kernel.strides[axis], kernel.dilation[axis], kernel.shape[2 + axis]
        low, _ = kernel.padding[axis]

        def whole(value: int) -> str:
            return str(value) if kind == "i64" else splat("i64", str(value))

        start = writer.value(f"sub {kind} {writer.value(f'mul {kind} {output}, {whole(stride)}')}, {whole(low)}")
        if not any(kernel.padding[axis]):
            return [
                writer.value(f"add {kind} {start}, {whole(step * dilation)}") for step in range(kernel.window[axis])
            ]
        # the first and last window position inside: -(start // dilation) and (size - 1 - start) // dilation
        ends = []
        for edge in (dilation - 1, size - 1):
            end = writer.value(f"sub {kind} {whole(edge)}, {start}")
            ends.append(end if dilation == 1 else writer.value(f"sdiv {kind} {end}, {whole(dilation)}"))
        result = []
        for step in range(kernel.window[axis]):
            held = writer.apply("smin", kind, writer.apply("smax", kind, whole(step), ends[0]), ends[1])
            result.append(writer.value(f"add {kind} {start}, {writer.value(f'mul {kind} {held}, {whole(dilation)}')}"))
        return result

    def _first_best(self, candidates: Iterable[Candidate]) -> str:
        """The first maximum of candidates, or its position (int32), lane by lane; each is read only when compared."""
        best = functools.reduce(self._better, candidates)
        return best[0 if self.kernel.values else 1]

    def _search_loop(self, source: str, rows: list[str], columns: list[str], part: loops.Part) -> str:
        """Searches large windows in a loop over coordinates in a table on the stack."""
        writer = self.writer
        tables = []
        for kind, values in (("i64", rows), ("i64" if self.along_channels else _WIDE, columns)):
            table = writer.value(f"alloca {kind}, i64 {len(values)}, align 64")
            for number, value in enumerate(values):
                place = writer.value(f"getelementptr {kind}, ptr {table}, i64 {number}")
                writer.emit(f"store {kind} {value}, ptr {place}, align 8")
            tables.append((kind, table))
        saved = writer.intrinsic("stacksave.p0", "ptr")
        first = self._read(self._point(source, rows[0], columns[0]), part)
        initial = list(zip((self.value_type, self.position_type), first, strict=True))
        with loops.counted_loop(writer, 1, len(rows) * len(columns), 1, "point", initial) as loop:
            point = []
            for (kind, table), index in zip(tables, ("udiv", "urem"), strict=True):
                which = writer.value(f"{index} i64 {loop.index}, {len(columns)}")
                place = writer.value(f"getelementptr {kind}, ptr {table}, i64 {which}")
                point.append(writer.value(f"load {kind}, ptr {place}, align 8"))
            candidate = self._read(self._point(source, point[0], point[1]), part)
            loop.next = [*self._better((loop.carried[0], loop.carried[1]), candidate)]
        writer.intrinsic("stackrestore.p0", "void", ("ptr", saved))
        return loop.next[0 if self.kernel.values else 1]

    def _better(self, best: Candidate, candidate: Candidate) -> Candidate:
        """The candidate where it is greater, or the first NaN; else the best so far."""
        writer, kind, lanes = self.writer, self.value_type, vector("i1", LANES)
        if self.kernel.dtype.is_float:
            above = writer.value(f"fcmp ugt {kind} {candidate[0]}, {best[0]}")
            number = writer.value(f"fcmp ord {kind} {best[0]}, {best[0]}")
            better = writer.value(f"and {lanes} {above}, {number}")
        else:
            better = writer.value(
                f"icmp {'s' if self.kernel.dtype.kind == 'int' else 'u'}gt {kind} {candidate[0]}, {best[0]}"
            )
        value = writer.value(f"select {lanes} {better}, {kind} {candidate[0]}, {kind} {best[0]}")
        where = writer.value(
            f"select {lanes} {better}, {self.position_type} {candidate[1]}, {self.position_type} {best[1]}"
        )
        return value, where

    def _point(self, source: str, row: str, column: str) -> Point:
        """The address and position of the elements at an image row and column (scalar along channels, else lanes)."""
        writer, kernel = self.writer, self.kernel
        _, _, row_stride, column_stride = kernel.input_strides
        row_offset = writer.value(f"mul i64 {row}, {row_stride}")
        flat_row = writer.value(f"mul i64 {row}, {kernel.shape[3]}")
        if self.along_channels:
            offset = writer.value(f"add i64 {row_offset}, {writer.value(f'mul i64 {column}, {column_stride}')}")
            place = writer.value(f"getelementptr {self.element}, ptr {source}, i64 {offset}")
            return writer.opaque("ptr", place), writer.value(
                f"trunc i64 {writer.value(f'add i64 {flat_row}, {column}')} to i32"
            )
        place = writer.value(f"getelementptr {self.element}, ptr {source}, i64 {row_offset}")
        offsets = writer.value(f"mul {_WIDE} {column}, {splat('i64', str(column_stride))}")
        addresses = writer.value(f"getelementptr {self.element}, ptr {place}, {_WIDE} {offsets}")
        flat = writer.value(f"add {_WIDE} {column}, {loops.broadcast(writer, 'i64', flat_row)}")
        return addresses, writer.value(f"trunc {_WIDE} {flat} to {self.position_type}")

    def _read(self, point: Point, part: loops.Part) -> Candidate:
        """The elements at a point for the lanes of a part, and h * W + w on every lane."""
        place, flat = point
        if self.along_channels:
            return load_operand(self.writer, self.source, place, part), loops.broadcast(self.writer, "i32", flat)
        return gather(self.writer, self.kernel.dtype, place), flat

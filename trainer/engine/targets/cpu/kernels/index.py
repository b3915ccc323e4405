"""Gathers and scatters at computed positions (`ir.indexing`), with shapes and strides baked in.

Scatters are deterministic: tasks share no element of the table, and each visits the indices in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from trainer.engine.graph.dtypes import DType, float32
from trainer.engine.targets.cpu.kernels import access, loops
from trainer.engine.targets.ir.expression import COMPUTE, LANES, MEMORY, cast, combined, widen
from trainer.engine.targets.ir.indexing import COMBINING, Indexing
from trainer.engine.targets.ir.operand import Operand, inner_of
from trainer.engine.targets.ir.vectors import splat
from trainer.engine.targets.ir.writer import Integer, Writer, vector

_WIDE = vector("i64", LANES)
_TASK_ELEMENTS = 16384
_SCATTER_PART = 64


class IndexKernel(Indexing):
    """One indexed kernel. Addresses: gather (table, indices, dense); scatter (dense, indices, table).

    A scatter of 16-bit floats adds into a float32 table; another kernel rounds it.
    """

    __slots__ = ()

    @property
    def table_dtype(self) -> DType:
        return float32 if self.operation == "scatter_add" and self.dtype.is_half else self.dtype

    @property
    def tasks(self) -> int:
        """Number of tasks in the grid; 0 if there is nothing to write."""
        split = _split(self)
        if split.row_count == 0 or split.width == 0 or (self.operation == "gather" and 0 in self.sizes):
            return 0
        return -(-split.row_count // split.rows_per_task) * split.parts

    def render(self, name: str) -> str:
        """The module text, exporting `void name(ptr arguments, i64 task)`."""
        if self.operation == "gather" and self.axis_size == 0 and 0 not in self.sizes:
            raise ValueError("there is nothing to gather from along an axis of length 0")
        return _Index(self).render(name)


@dataclass(frozen=True, slots=True)
class _Split:
    """The traversal of the space: rows of outer dimensions, a vector dimension, and colliding dimensions (scatter)."""

    rows: tuple[int, ...]
    vector: int | None
    colliding: tuple[int, ...]
    row_count: int
    rows_per_task: int
    width: int
    part: int

    @property
    def parts(self) -> int:
        return max(1, -(-self.width // self.part))


def _split(kernel: IndexKernel) -> _Split:
    dimensions = range(len(kernel.sizes))
    adding = kernel.operation != "gather"
    selecting = kernel.combining
    free = [d for d in dimensions if d not in selecting and kernel.sizes[d] != 1]
    vectors = [d for d in free if kernel.table_strides[d] == 1] if adding else free
    innermost = min(vectors, key=lambda d: (kernel.dense_strides[d], -d), default=None)
    rows = sorted((d for d in free if d != innermost), key=lambda d: -kernel.dense_strides[d])
    width = 1 if innermost is None else kernel.sizes[innermost]
    row_count = math.prod(kernel.sizes[d] for d in rows)
    part = _SCATTER_PART if adding else _TASK_ELEMENTS
    repeats = math.prod(kernel.sizes[d] for d in selecting)
    work = max(1, min(width, part) * max(1, repeats))
    return _Split(
        tuple(rows), innermost, selecting, row_count, max(1, _TASK_ELEMENTS // work), width, part
    )  # fmt: skip


class _Index:
    """Writes one kernel. Operands are always (table, indices, dense), regardless of the order of addresses."""

    def __init__(self, kernel: IndexKernel) -> None:
        self.kernel, self.split, self.writer = kernel, _split(kernel), Writer()
        self.strides = (kernel.table_strides, kernel.index_strides, kernel.dense_strides)
        inner = self.split.vector
        self.steps = [strides[inner] if inner is not None else 0 for strides in self.strides]
        dtypes = (kernel.table_dtype, kernel.index_dtype, kernel.dtype)
        self.operands = [Operand(dtype, inner_of(step)) for dtype, step in zip(dtypes, self.steps, strict=True)]
        self.index_varies = self.steps[1] != 0

    def render(self, name: str) -> str:
        writer, split = self.writer, self.split
        is_gather = self.kernel.operation == "gather"
        bases = [loops.word(writer, place, "ptr") for place in range(3)]
        block = writer.value(f"udiv i64 %task, {split.parts}")
        part = writer.value(f"urem i64 %task, {split.parts}")
        start, stop = loops.bounds(writer, part, split.part, split.width)
        first, last = loops.bounds(writer, block, split.rows_per_task, split.row_count)
        with self._points(bases if is_gather else bases[::-1], split.rows, first, last) as places:
            (self._gather_row if is_gather else self._scatter_row)(places, start, stop)
        return writer.module(name)

    @contextmanager
    def _points(
        self, bases: list[str], dimensions: Sequence[int], first: Integer, last: Integer
    ) -> Iterator[list[str]]:
        """Yields the places at each point of `dimensions` with flattened index in [first, last)."""
        sizes = [self.kernel.sizes[d] for d in dimensions] or [1]
        strides = [[strides[d] for d in dimensions] or [0] for strides in self.strides]
        arguments = loops.Arguments(self.operands, bases, sizes, strides)
        with loops.each_point(self.writer, arguments, len(sizes), first, last) as places:
            yield places

    def _scalar_index(self, place: str) -> str:
        """The single index of a row, as i64."""
        element = MEMORY[self.kernel.index_dtype.name]
        raw = self.writer.value(f"load {element}, ptr {place}, align {self.kernel.index_dtype.itemsize}")
        return raw if element == "i64" else self.writer.value(f"sext {element} {raw} to i64")

    def _index_vector(self, place: str, part: loops.Part) -> str:
        raw = access.load_operand(self.writer, self.operands[1], place, part, self.steps[1])
        if MEMORY[self.kernel.index_dtype.name] == "i64":
            return raw
        return self.writer.value(f"sext {vector('i32', LANES)} {raw} to {_WIDE}")

    def _held(self, index: str, kind: str) -> str:
        """An index, or lanes of them, clamped to the axis."""
        for name, bound in (("smax", 0), ("smin", self.kernel.axis_size - 1)):
            limit = str(bound) if kind == "i64" else splat("i64", str(bound))
            index = self.writer.apply(name, kind, index, limit)
        return index

    def _offsets(self, index: str, part: loops.Part) -> str:
        """Element offsets into the table's row for the lanes of `part`; 0 outside the mask."""
        writer = self.writer
        along = writer.value(f"mul {_WIDE} {index}, {splat('i64', str(self.kernel.axis_stride))}")
        lanes = writer.value(f"add {_WIDE} {loops.broadcast(writer, 'i64', part.position)}, {loops.IOTA['i64']}")
        across = writer.value(f"mul {_WIDE} {lanes}, {splat('i64', str(self.steps[0]))}")
        total = writer.value(f"add {_WIDE} {along}, {across}")
        if part.mask is not None:
            lanes = f"{vector('i1', LANES)} {part.mask}"
            total = writer.value(f"select {lanes}, {_WIDE} {total}, {_WIDE} zeroinitializer")
        return total

    def _pointers(self, table: str, offsets: str) -> str:
        return self.writer.value(
            f"getelementptr {MEMORY[self.kernel.table_dtype.name]}, ptr {table}, {_WIDE} {offsets}"
        )

    def _gather_row(self, places: list[str], start: Integer, stop: Integer) -> None:
        writer, step = self.writer, self.steps[2]
        table, indices, dense = places
        if not self.index_varies:
            table = self._table_place(table, self._held(self._scalar_index(indices), "i64"))
        target = self.operands[2] if self.split.vector is not None else Operand(self.kernel.dtype, "contiguous")
        for part in loops.vectors(writer, start, stop, "gather"):
            if self.index_varies:
                index = self._held(self._index_vector(indices, part), _WIDE)
                pointers = self._pointers(table, self._offsets(index, part))
                value = access.gather(writer, self.kernel.table_dtype, pointers)
            else:
                value = access.load_operand(writer, self.operands[0], table, part, self.steps[0])
            access.store_operand(writer, target, dense, part, value, step)

    def _scatter_row(self, places: list[str], start: Integer, stop: Integer) -> None:
        """Clears the row's part of the table, then adds all of its updates."""
        writer, kernel = self.writer, self.kernel
        table, dtype = places[0], kernel.table_dtype
        with loops.counted_loop(writer, 0, kernel.axis_size, 1, "axis") as axis:
            place = self._table_place(table, axis.index)
            if self.split.vector is None:
                first = self._neutral or ("0.0" if dtype.is_float else "0")
                writer.emit(f"store {MEMORY[dtype.name]} {first}, ptr {place}, align {dtype.itemsize}")
            else:
                first = splat(COMPUTE[dtype.name], self._neutral) if self._neutral else "zeroinitializer"
                for part in loops.vectors(writer, start, stop, "clear"):
                    access.store_operand(writer, Operand(dtype, "contiguous"), place, part, first)
        total = math.prod(kernel.sizes[d] for d in self.split.colliding)
        with self._points(places, self.split.colliding, 0, total) as here:
            here = [table, *here[1:]]
            if self.split.vector is None:
                self._add_one(here)
            elif self.index_varies:
                self._add_lanes(here, start, stop)
            else:
                self._add_row(here, start, stop)

    @property
    def _neutral(self) -> str:
        """The literal that the first update is combined with; "" for zero."""
        return "" if self.kernel.operation == "scatter_add" else self.kernel.neutral

    def _inside(self, index: str) -> str:
        return self.writer.value(f"icmp ult i64 {index}, {self.kernel.axis_size}")

    def _sum(self, table: str, update: str, lanes: int = LANES) -> str:
        """table + update, or another combination, in the table's dtype; the update has the kernel's dtype."""
        dtype = self.kernel.table_dtype
        addend = cast(self.writer, update, self.kernel.dtype, dtype, lanes)
        return combined(self.writer, COMBINING[self.kernel.operation], dtype, table, addend, lanes)

    def _table_place(self, table: str, index: Integer) -> str:
        return loops.stepped(self.writer, MEMORY[self.kernel.table_dtype.name], table, index, self.kernel.axis_stride)

    def _add_row(self, places: list[str], start: Integer, stop: Integer) -> None:
        """Adds a row with one index: a vector addition."""
        writer = self.writer
        index = self._scalar_index(places[1])
        operand = Operand(self.kernel.table_dtype, "contiguous")
        with writer.when(self._inside(index), "inside"):
            place = self._table_place(places[0], index)
            for part in loops.vectors(writer, start, stop, "add"):
                old = access.load_operand(writer, operand, place, part)
                update = access.load_operand(writer, self.operands[2], places[2], part, self.steps[2])
                access.store_operand(writer, operand, place, part, self._sum(old, update))

    def _add_lanes(self, places: list[str], start: Integer, stop: Integer) -> None:
        """Adds with an index on each lane; lanes are different elements of the table, so they can't collide."""
        writer, dtype = self.writer, self.kernel.table_dtype
        for part in loops.vectors(writer, start, stop, "add"):
            index = self._index_vector(places[1], part)
            good = writer.value(f"icmp ult {_WIDE} {index}, {splat('i64', str(self.kernel.axis_size))}")
            if part.mask is not None:
                good = writer.value(f"and {vector('i1', LANES)} {good}, {part.mask}")
            offsets = self._offsets(index, replace(part, mask=good))
            pointers = self._pointers(places[0], offsets)
            old = access.gather(writer, dtype, self._pointers(places[0], offsets))
            update = access.load_operand(writer, self.operands[2], places[2], part, self.steps[2])
            access.scatter(writer, dtype, self._sum(old, update), pointers, good)

    def _add_one(self, places: list[str]) -> None:
        """Adds to a table without a vector dimension, one element at a time."""
        writer, table_dtype, dtype = self.writer, self.kernel.table_dtype, self.kernel.dtype
        index = self._scalar_index(places[1])
        with writer.when(self._inside(index), "inside"):
            place = self._table_place(places[0], index)
            old = access.load_vector(writer, table_dtype, place, 1)
            update = widen(writer, access.load_vector(writer, dtype, places[2], 1), dtype, 1)
            access.store_vector(writer, table_dtype, self._sum(old, update, 1), place, 1)

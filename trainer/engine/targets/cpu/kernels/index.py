"""Reading and adding at computed positions: gather, take_along and their transposes, with shapes and strides baked in.

All four are one loop nest over the space of the *dense* array (the output of a gather, the updates of a scatter), in
which an index array says where along one axis of the *table* an element lies. An index outside the axis is clamped when
reading and dropped when adding, so no index touches memory outside the table.

Adding is deterministic: tasks share no element of the table, and each walks the indices in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trainer.engine.graph.dtypes import DType, float32
from trainer.engine.program.spec import Inner, Instruction, Operand
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.expression import LANES, MEMORY, cast, memory_type, render_body, widen
from trainer.engine.targets.cpu.kernels.loops import (
    IOTA,
    Arguments,
    broadcast,
    counted_loop,
    for_each_row,
    for_each_run,
    minimum,
    vector_loop,
    when,
)
from trainer.engine.targets.cpu.kernels.vectors import splat
from trainer.engine.targets.cpu.kernels.writer import Writer, mangled, vector

_TASK_ELEMENTS = 16384
_SCATTER_PART = 64


@dataclass(frozen=True, slots=True)
class IndexKernel:
    """One indexed kernel. `sizes` is the dense array's shape; all strides are in elements, along its dimensions.

    `table_strides` are 0 along dimensions that select a position on the axis (those of gather's indices, or the axis of
    take_along). Addresses: gather (table, indices, dense); scatter_add (dense, indices, table), which is cleared first.
    A scatter of 16-bit floats adds into a float32 table; to round it is another kernel's work.
    """

    operation: Literal["gather", "scatter_add"]
    dtype: DType
    index_dtype: DType
    sizes: tuple[int, ...]
    axis_size: int
    axis_stride: int
    dense_strides: tuple[int, ...]
    index_strides: tuple[int, ...]
    table_strides: tuple[int, ...]

    @property
    def table_dtype(self) -> DType:
        return float32 if self.operation == "scatter_add" and self.dtype.is_half else self.dtype


def gather(
    table_shape: Sequence[int], indices_shape: Sequence[int], axis: int, dtype: DType, index_dtype: DType, *,
    table_strides: Sequence[int], index_strides: Sequence[int], dense_strides: Sequence[int],
    operation: Literal["gather", "scatter_add"] = "gather",
) -> IndexKernel:  # fmt: skip
    """dense = table.take(indices, axis), of shape table[:axis] + indices + table[axis+1:]; or its transpose."""
    before, after = tuple(table_shape[:axis]), tuple(table_shape[axis + 1 :])
    inner = len(indices_shape)
    return IndexKernel(
        operation, dtype, index_dtype, (*before, *indices_shape, *after), table_shape[axis], table_strides[axis],
        tuple(dense_strides),
        (*(0 for _ in before), *index_strides, *(0 for _ in after)),
        (*table_strides[:axis], *(0 for _ in range(inner)), *table_strides[axis + 1 :]),
    )  # fmt: skip


def take_along(
    table_shape: Sequence[int], indices_shape: Sequence[int], axis: int, dtype: DType, index_dtype: DType, *,
    table_strides: Sequence[int], index_strides: Sequence[int], dense_strides: Sequence[int],
    operation: Literal["gather", "scatter_add"] = "gather",
) -> IndexKernel:  # fmt: skip
    """dense = numpy.take_along_axis(table, indices, axis), of the indices' shape; or its transpose."""
    strides = tuple(0 if dimension == axis else stride for dimension, stride in enumerate(table_strides))
    return IndexKernel(
        operation, dtype, index_dtype, tuple(indices_shape), table_shape[axis], table_strides[axis],
        tuple(dense_strides), tuple(index_strides), strides,
    )  # fmt: skip


def scatter_add(
    table_shape: Sequence[int], indices_shape: Sequence[int], axis: int, dtype: DType, index_dtype: DType, *,
    table_strides: Sequence[int], index_strides: Sequence[int], dense_strides: Sequence[int],
) -> IndexKernel:  # fmt: skip
    """The transpose of `gather`: adds the dense array into a cleared table, in row-major order of the indices."""
    return gather(
        table_shape, indices_shape, axis, dtype, index_dtype, table_strides=table_strides, index_strides=index_strides,
        dense_strides=dense_strides, operation="scatter_add",
    )  # fmt: skip


def scatter_add_along(
    table_shape: Sequence[int], indices_shape: Sequence[int], axis: int, dtype: DType, index_dtype: DType, *,
    table_strides: Sequence[int], index_strides: Sequence[int], dense_strides: Sequence[int],
) -> IndexKernel:  # fmt: skip
    """The transpose of `take_along`: adds the dense array into a cleared table, in order along the axis."""
    return take_along(
        table_shape, indices_shape, axis, dtype, index_dtype, table_strides=table_strides, index_strides=index_strides,
        dense_strides=dense_strides, operation="scatter_add",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Split:
    """How the space is walked: rows of outer dimensions, a vector dimension, and those that may collide (adding)."""

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
    adding = kernel.operation == "scatter_add"
    selecting = [d for d in dimensions if adding and kernel.table_strides[d] == 0 and kernel.sizes[d] != 1]
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
        tuple(rows), innermost, tuple(selecting), row_count, max(1, _TASK_ELEMENTS // work), width, part
    )  # fmt: skip


def tasks(kernel: IndexKernel) -> int:
    """How many tasks the grid of `kernel` has; 0 where there is nothing to write."""
    split = _split(kernel)
    if split.row_count == 0 or split.width == 0 or (kernel.operation == "gather" and 0 in kernel.sizes):
        return 0
    return -(-split.row_count // split.rows_per_task) * split.parts


def render_index(kernel: IndexKernel, name: str) -> str:
    """The module text, exporting `void name(ptr arguments, i64 task)`; arguments are `IndexKernel`'s addresses."""
    if kernel.operation == "gather" and kernel.axis_size == 0 and 0 not in kernel.sizes:
        raise ValueError("there is nothing to gather from along an axis of length 0")
    return _Index(kernel).render(name)


def _inner(stride: int) -> Inner:
    return "contiguous" if stride == 1 else "broadcast" if stride == 0 else "strided"


class _Index:
    """One kernel while it is written. Operands are always (table, indices, dense), whatever the order of addresses."""

    def __init__(self, kernel: IndexKernel) -> None:
        self.kernel, self.split, self.writer = kernel, _split(kernel), Writer()
        self.strides = (kernel.table_strides, kernel.index_strides, kernel.dense_strides)
        inner = self.split.vector
        steps = [strides[inner] if inner is not None else 0 for strides in self.strides]
        self.steps = [str(step) for step in steps]
        dtypes = (kernel.table_dtype, kernel.index_dtype, kernel.dtype)
        self.operands = [Operand(dtype, _inner(step)) for dtype, step in zip(dtypes, steps, strict=True)]
        self.elements = [MEMORY[dtype.name] for dtype in dtypes]
        self.index_varies = steps[1] != 0

    def render(self, name: str) -> str:
        writer, split = self.writer, self.split
        order = (0, 1, 2) if self.kernel.operation == "gather" else (2, 1, 0)
        bases = ["", "", ""]
        for word, operand in enumerate(order):
            place = writer.value(f"getelementptr i64, ptr %arguments, i64 {word}")
            bases[operand] = writer.value(f"load ptr, ptr {place}")
        block = writer.value(f"udiv i64 %task, {split.parts}")
        start = writer.value(f"mul i64 {writer.value(f'urem i64 %task, {split.parts}')}, {split.part}")
        stop = minimum(writer, str(split.width), writer.value(f"add i64 {start}, {split.part}"))
        first = writer.value(f"mul i64 {block}, {split.rows_per_task}")
        last = minimum(writer, str(split.row_count), writer.value(f"add i64 {first}, {split.rows_per_task}"))

        def row(places: list[str]) -> None:
            if self.kernel.operation == "gather":
                self._gather_row(places, start, stop)
            else:
                self._scatter_row(places, start, stop)

        self._walk(bases, split.rows, first, last, row)
        return writer.module(name)

    def _walk(
        self, bases: list[str], dimensions: Sequence[int], first: str, last: str, body: Callable[[list[str]], None]
    ) -> None:
        """`body(places)` at each point of `dimensions` with flattened index in [first, last)."""
        sizes = [str(self.kernel.sizes[d]) for d in dimensions] or ["1"]
        strides = [[str(strides[d]) for d in dimensions] or ["0"] for strides in self.strides]
        arguments = Arguments(self.operands, bases, sizes, strides, "0", "0")
        for_each_run(
            self.writer, arguments, self.elements, len(sizes), first, last,
            lambda run: for_each_row(self.writer, arguments, self.elements, run, run.count, run.places, body),
        )  # fmt: skip

    def _scalar_index(self, place: str) -> str:
        """The one index of a row, as i64."""
        element = self.elements[1]
        raw = self.writer.value(f"load {element}, ptr {place}, align {self.kernel.index_dtype.itemsize}")
        return raw if element == "i64" else self.writer.value(f"sext {element} {raw} to i64")

    def _index_vector(self, place: str, position: str, mask: str | None) -> str:
        raw = load_vector(self.writer, self.operands[1], place, self.steps[1], position, mask)
        kind = vector("i64", LANES)
        return raw if self.elements[1] == "i64" else self.writer.value(f"sext {vector('i32', LANES)} {raw} to {kind}")

    def _offsets(self, index: str, position: str, mask: str | None) -> str:
        """Element offsets into the table's row, for lanes from `position` on; 0 outside `mask`."""
        writer, kind = self.writer, vector("i64", LANES)
        along = writer.value(f"mul {kind} {index}, {splat('i64', str(self.kernel.axis_stride))}")
        lanes = writer.value(f"add {kind} {broadcast(writer, 'i64', position)}, {IOTA['i64']}")
        across = writer.value(f"mul {kind} {lanes}, {splat('i64', self.steps[0])}")
        total = writer.value(f"add {kind} {along}, {across}")
        if mask is None:
            return total
        return writer.value(f"select {vector('i1', LANES)} {mask}, {kind} {total}, {kind} zeroinitializer")

    def _gather_at(self, place: str, offsets: str) -> str:
        """Table elements in the compute type. Every lane is read, so every offset must be good."""
        writer, element, dtype = self.writer, self.elements[0], self.kernel.table_dtype
        kind, pointers = memory_type(dtype), vector("ptr", LANES)
        addresses = writer.value(f"getelementptr {element}, ptr {place}, {vector('i64', LANES)} {offsets}")
        raw = writer.intrinsic(
            f"masked.gather.{mangled(kind)}.v{LANES}p0", kind, (pointers, addresses),
            (vector("i1", LANES), "splat (i1 true)"), (kind, "poison"),
        )  # fmt: skip
        return widen(writer, raw, dtype)

    def _gather_row(self, places: list[str], start: str, stop: str) -> None:
        writer, top = self.writer, str(self.kernel.axis_size - 1)
        table, indices, dense = places
        if not self.index_varies:
            index = self._scalar_index(indices)
            index = writer.intrinsic("smax.i64", "i64", ("i64", index), ("i64", "0"))
            index = writer.intrinsic("smin.i64", "i64", ("i64", index), ("i64", top))
            moved = writer.value(f"mul i64 {index}, {self.kernel.axis_stride}")
            table = writer.value(f"getelementptr {self.elements[0]}, ptr {table}, i64 {moved}")
        kind = vector("i64", LANES)

        def body(position: str, mask: str | None) -> None:
            if self.index_varies:
                index = self._index_vector(indices, position, mask)
                index = writer.intrinsic(f"smax.{mangled(kind)}", kind, (kind, index), (kind, splat("i64", "0")))
                index = writer.intrinsic(f"smin.{mangled(kind)}", kind, (kind, index), (kind, splat("i64", top)))
                value = self._gather_at(table, self._offsets(index, position, mask))
            else:
                value = load_vector(writer, self.operands[0], table, self.steps[0], position, mask)
            operand = (
                self.operands[2] if self.split.vector is not None else replace(self.operands[2], inner="contiguous")
            )
            store_vector(writer, operand, dense, self.steps[2], position, mask, value)

        vector_loop(writer, start, stop, body, "gather")

    def _scatter_row(self, places: list[str], start: str, stop: str) -> None:
        """Clears the row's part of the table, then adds all that goes there."""
        writer, kernel = self.writer, self.kernel
        table = places[0]
        operand = Operand(kernel.table_dtype, "contiguous")

        def clear(position_on_axis: str) -> None:
            offset = writer.value(f"mul i64 {position_on_axis}, {kernel.axis_stride}")
            place = writer.value(f"getelementptr {self.elements[0]}, ptr {table}, i64 {offset}")
            if self.split.vector is None:
                zero_scalar = "0.0" if kernel.table_dtype.is_float else "0"
                writer.emit(f"store {self.elements[0]} {zero_scalar}, ptr {place}, align {kernel.table_dtype.itemsize}")
                return

            def zero(position: str, mask: str | None) -> None:
                store_vector(writer, operand, place, "1", position, mask, "zeroinitializer")

            vector_loop(writer, start, stop, zero, "clear")

        counted_loop(writer, "0", str(kernel.axis_size), 1, clear, "axis")
        total = math.prod(kernel.sizes[d] for d in self.split.colliding)

        def point(here: list[str]) -> None:
            here = [table, *here[1:]]
            if self.split.vector is None:
                self._add_one(here)
            elif self.index_varies:
                self._add_lanes(here, start, stop)
            else:
                self._add_row(here, start, stop)

        self._walk(places, self.split.colliding, "0", str(total), point)

    def _inside(self, index: str) -> str:
        return self.writer.value(f"icmp ult i64 {index}, {self.kernel.axis_size}")

    def _sum(self, table: str, update: str, lanes: int = LANES) -> str:
        """table + update, in the table's dtype; the update is in its own."""
        dtype = self.kernel.table_dtype
        addend = cast(self.writer, update, self.kernel.dtype, dtype, lanes)
        body = [
            Instruction("load", (), dtype, (0,)),
            Instruction("load", (), dtype, (1,)),
            Instruction("add", (0, 1), dtype),
        ]
        return render_body(self.writer, body, [table, addend], lanes)[-1]

    def _table_place(self, table: str, index: str) -> str:
        offset = self.writer.value(f"mul i64 {index}, {self.kernel.axis_stride}")
        return self.writer.value(f"getelementptr {self.elements[0]}, ptr {table}, i64 {offset}")

    def _add_row(self, places: list[str], start: str, stop: str) -> None:
        """One index for the whole row: a vector addition."""
        writer = self.writer
        index = self._scalar_index(places[1])
        operand = Operand(self.kernel.table_dtype, "contiguous")

        def add() -> None:
            place = self._table_place(places[0], index)

            def body(position: str, mask: str | None) -> None:
                old = load_vector(writer, operand, place, "1", position, mask)
                update = load_vector(writer, self.operands[2], places[2], self.steps[2], position, mask)
                store_vector(writer, operand, place, "1", position, mask, self._sum(old, update))

            vector_loop(writer, start, stop, body, "add")

        when(writer, self._inside(index), add, "inside")

    def _add_lanes(self, places: list[str], start: str, stop: str) -> None:
        """An index on each lane; lanes are different elements of the table, so they can't collide."""
        writer, dtype = self.writer, self.kernel.table_dtype
        lanes, wide = vector("i1", LANES), vector("i64", LANES)
        kind, pointers = memory_type(dtype), vector("ptr", LANES)

        def body(position: str, mask: str | None) -> None:
            index = self._index_vector(places[1], position, mask)
            good = writer.value(f"icmp ult {wide} {index}, {splat('i64', str(self.kernel.axis_size))}")
            if mask is not None:
                good = writer.value(f"and {lanes} {good}, {mask}")
            offsets = self._offsets(index, position, good)
            addresses = writer.value(f"getelementptr {self.elements[0]}, ptr {places[0]}, {wide} {offsets}")
            old = self._gather_at(places[0], offsets)
            update = load_vector(writer, self.operands[2], places[2], self.steps[2], position, mask)
            writer.intrinsic(
                f"masked.scatter.{mangled(kind)}.v{LANES}p0", "void", (kind, self._sum(old, update)),
                (pointers, addresses), (lanes, good),
            )  # fmt: skip

        vector_loop(writer, start, stop, body, "add")

    def _add_one(self, places: list[str]) -> None:
        """A table without a vector dimension: one element at a time."""
        writer, table_dtype, dtype = self.writer, self.kernel.table_dtype, self.kernel.dtype
        index = self._scalar_index(places[1])

        def add() -> None:
            place = self._table_place(places[0], index)
            table_kind, kind = memory_type(table_dtype, 1), memory_type(dtype, 1)
            old = writer.value(f"load {table_kind}, ptr {place}, align {table_dtype.itemsize}")
            raw = writer.value(f"load {kind}, ptr {places[2]}, align {dtype.itemsize}")
            total = self._sum(old, widen(writer, raw, dtype, 1), 1)
            writer.emit(f"store {table_kind} {total}, ptr {place}, align {table_dtype.itemsize}")

        when(writer, self._inside(index), add, "inside")

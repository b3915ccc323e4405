"""Rows of different lengths: a table of their steps, and packed arrays that hold only existing steps.

Packed arrays [N, width] hold the existing steps consecutively: all rows of step 0, all rows of step 1, …, within a step
the rows by length, longest first. The rows that have a step are therefore the first rows of the previous step. Sums
and products end at the number of packed steps, which is known only at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels import copies
from trainer.engine.targets.cpu.kernels.access import Elements
from trainer.engine.targets.cpu.kernels.tile import cut_columns
from trainer.engine.targets.ir.writer import Integer, Writer

SUMMED_ROWS, SUMMED_VECTORS = 256, 8
"""Rows in a block of `RaggedSums`, and vectors of sums that stay in registers."""


@dataclass(frozen=True, slots=True)
class RaggedRows:
    """The int64 table of rows with int32 lengths [batch]: the rows, longest first; for each step, and one past the end,
    the number of rows that have it; and for each of these the start of its packed steps, so the last start is the total
    number of packed steps. Addresses: lengths, table.
    """

    batch: int
    steps: int
    stride: int

    dtype = dtypes.int64
    tasks = 1

    @property
    def counts(self) -> int:
        """The offset of the row counts in the table."""
        return self.batch

    @property
    def starts(self) -> int:
        """The offset of the steps' starts in the table."""
        return self.counts + self.steps + 1

    @property
    def size(self) -> int:
        return self.starts + self.steps + 1

    def render(self, name: str) -> str:
        """The module text. The kernel compares every pair of rows, and every row with every step."""
        writer = Writer()
        lengths, table = writer.argument(0), writer.argument(1)

        def length_of(row: Integer) -> str:
            place = writer.pointer(lengths, writer.multiply(row, self.stride), "i32")
            return writer.value(f"sext i32 {writer.value(f'load i32, ptr {place}')} to i64")

        def counted(condition: str, total: str) -> str:
            return str(writer.add(total, writer.value(f"zext i1 {condition} to i64")))

        def store(value: Integer, place: Integer) -> None:
            writer.emit(f"store i64 {value}, ptr {writer.pointer(table, place, 'i64')}")

        with writer.loop(0, self.batch) as row:
            own = length_of(row.index)
            with writer.loop(0, self.batch, 1, [("i64", "0")]) as other:
                theirs = length_of(other.index)
                earlier = writer.value(f"icmp slt i64 {other.index}, {row.index}")
                longer = writer.value(f"icmp sgt i64 {theirs}, {own}")
                alike = writer.value(f"icmp eq i64 {theirs}, {own}")
                before = writer.value(f"or i1 {longer}, {writer.value(f'and i1 {alike}, {earlier}')}")
                other.next = [counted(before, other.carried[0])]
            store(row.index, other.next[0])
        with writer.loop(0, self.steps + 1, 1, [("i64", "0")]) as step:
            with writer.loop(0, self.batch, 1, [("i64", "0")]) as row:
                has = writer.value(f"icmp sgt i64 {length_of(row.index)}, {step.index}")
                row.next = [counted(has, row.carried[0])]
            store(row.next[0], writer.add(step.index, self.counts))
            store(step.carried[0], writer.add(step.index, self.starts))
            step.next = [str(writer.add(step.carried[0], row.next[0]))]
        return writer.module(name)


@dataclass(frozen=True, slots=True)
class RaggedCopy:
    """Copies rows of `width` elements between an array [T, B, width] and a packed one, with one task for each step.

    "pack": packs the existing steps. "unpack": the reverse, with zeros for missing steps. "before": the packed states
    that steps begin with: those of the step `neighbor` steps away, or the edge [B, width]. "first": each row's first
    step in scan order, from a packed array to [B, width], or zeros.
    Addresses: source, table, target, and for "before" the edge.
    """

    mode: Literal["pack", "unpack", "before", "first"]
    dtype: DType
    table: RaggedRows
    width: int
    neighbor: int = -1

    @property
    def tasks(self) -> int:
        return self.table.steps

    @property
    def size(self) -> int:
        rows = self.table.batch if self.mode == "first" else self.table.batch * self.table.steps
        return rows * self.width

    def render(self, name: str) -> str:
        """The module text."""
        writer, table, batch = Writer(), self.table, self.table.batch
        memory = Elements(writer, self.dtype)
        source, rows, target = (writer.argument(word) for word in range(3))
        copy, clear = copies.define_copy(writer, self.dtype), copies.define_clear(writer, self.dtype)

        def known(place: Integer) -> str:
            return writer.value(f"load i64, ptr {writer.pointer(rows, place, 'i64')}")

        def row_of(array: str, number: Integer) -> str:
            return memory.at(array, writer.multiply(number, self.width))

        def each(first: Integer, last: Integer, do: Callable[[Integer, str], None]) -> None:
            with writer.loop(first, last) as place:
                do(place.index, known(place.index))

        def step_at(time: Integer, row: str) -> Integer:
            return writer.add(writer.multiply(time, batch), row)

        time = "%task"
        count = known(writer.add(time, table.counts))
        start = known(writer.add(time, table.starts))
        whole = (self.width,)

        def pack(place: Integer, row: str) -> None:
            here, there = row_of(source, step_at(time, row)), row_of(target, writer.add(start, place))
            writer.run(copy, (there, here), whole)

        def unpack(place: Integer, row: str) -> None:
            here, there = row_of(source, writer.add(start, place)), row_of(target, step_at(time, row))
            writer.run(copy, (there, here), whole)

        def before(place: Integer, row: str) -> None:
            near = writer.add(time, self.neighbor)
            if self.neighbor > 0:
                has = writer.value(f"icmp slt i64 {place}, {known(writer.add(near, table.counts))}")
            else:
                has = writer.value(f"icmp sgt i64 {time}, 0")
            here, edge = row_of(source, step_at(near, row)), row_of(writer.argument(3), row)
            here = writer.value(f"select i1 {has}, ptr {here}, ptr {edge}")
            writer.run(copy, (row_of(target, writer.add(start, place)), here), whole)

        def first(place: Integer, row: str) -> None:
            writer.run(copy, (row_of(target, row), row_of(source, writer.add(start, place))), whole)

        def none(place: Integer, row: str) -> None:
            number = row if self.mode == "first" else step_at(time, row)
            writer.run(clear, (row_of(target, number),), whole)

        is_start = writer.value(f"icmp eq i64 {time}, 0")
        if self.mode == "first":
            if self.neighbor > 0:  # in a reversed scan a row begins at its last step
                each(known(writer.add(writer.add(time, 1), table.counts)), count, first)
            with writer.when(is_start):
                if self.neighbor < 0:
                    each(0, count, first)
                each(count, batch, none)
            return writer.module(name)
        each(0, count, {"pack": pack, "unpack": unpack, "before": before}[self.mode])
        if self.mode == "unpack":
            each(count, batch, none)
        return writer.module(name)


@dataclass(frozen=True, slots=True)
class RaggedSums:
    """Sums of an array's rows, `pitch` elements apart, in order within each block of SUMMED_ROWS rows: [blocks, width].
    Addresses: array, sums, and if `counted` the number of rows; blocks past that number are zeros.
    """

    dtype: DType
    rows: int
    width: int
    pitch: int
    counted: bool

    @property
    def blocks(self) -> int:
        return -(-self.rows // SUMMED_ROWS) if self.counted else 1

    @property
    def size(self) -> int:
        return self.blocks * self.width

    @property
    def strips(self) -> int:
        return -(-self.width // (SUMMED_VECTORS * Elements(Writer(), self.dtype).lanes))

    @property
    def tasks(self) -> int:
        return self.blocks * self.strips

    def render(self, name: str) -> str:
        """The module text."""
        writer = Writer()
        memory = Elements(writer, self.dtype)
        lanes = memory.lanes
        array, sums = writer.argument(0), writer.argument(1)
        block, strip = writer.divide("%task", self.strips)
        first: Integer = 0
        last: Integer = self.rows
        if self.counted:
            count = writer.value(f"load i64, ptr {writer.argument(2)}")
            first, last = writer.share(block, SUMMED_ROWS, count)
        vector = writer.multiply(strip, SUMMED_VECTORS)
        column = writer.multiply(vector, lanes)
        for vectors, active in cut_columns(writer, vector, self.width, lanes, SUMMED_VECTORS):
            parts = [(number * lanes, active if number == vectors - 1 else lanes) for number in range(vectors)]
            with writer.loop(first, last, 1, [(memory.kind, "zeroinitializer")] * vectors) as row:
                here = memory.at(array, writer.add(writer.multiply(row.index, self.pitch), column))
                row.next = [
                    writer.value(f"fadd {memory.kind} {total}, {memory.load(here, place, width)}")
                    for total, (place, width) in zip(row.carried, parts, strict=True)
                ]
            there = memory.at(sums, writer.add(writer.multiply(block, self.width), column))
            for total, (place, width) in zip(row.next, parts, strict=True):
                memory.store(total, there, place, width)
        return writer.module(name)

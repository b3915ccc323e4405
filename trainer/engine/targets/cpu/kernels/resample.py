"""Resampling of channels-last images: weighted sums of runs of rows and columns. Sizes and runs are arguments.

Numerics class "exact": for each row of the run, ascending, the products of its columns, ascending, are added up from
zero; the sum times the row's weight is added to the result, from zero. bfloat16 is summed in float32.

Function: `void name(ptr arguments, i64 task)`. Argument words: addresses of x and y; output rows P, columns Q,
channels; total rows (N·P) and rows per task; elements between images, rows and pixels of x, then of y; then for each
output row and each output column (start, count, the word where its weights begin); then weights as float64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.primitives.resampling import Band
from trainer.engine.targets.cpu.kernels.access import load_operand, store_operand
from trainer.engine.targets.cpu.kernels.loops import Part, bounds, broadcast, counted_loop, stepped, vectors, word
from trainer.engine.targets.ir.expression import COMPUTE, LANES, MEMORY, compute_type, round_to_half
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import Integer, Typed, Writer

_HEAD = 13
_TASK_PRODUCTS = 65536


@dataclass(frozen=True, slots=True)
class Resample:
    """A kernel that computes `vectors` vectors of channels at a time; with one, channels may be any number."""

    dtype: DType
    vectors: int

    @classmethod
    def of(cls, dtype: DType, channels: int) -> Self:
        """The widest kernel whose vectors `channels` fills."""
        return cls(dtype, next(count for count in (4, 2, 1) if channels % (count * LANES) == 0 or count == 1))

    def render(self, name: str) -> str:
        """The module of the kernel."""
        return RunWriter(self).render(name)


def rows_per_task(rows: Band, columns: Band, channels: int) -> int:
    """Number of output rows per task, from the shape alone."""
    longest = max((len(weights) for _, weights in rows[1]), default=0)
    products = longest * sum(len(weights) for _, weights in columns[1]) * channels
    return max(1, _TASK_PRODUCTS // max(1, products))


def tail_words(dtype: DType, rows: Band, columns: Band, before: int) -> list[int]:
    """The words of the runs, and the weights rounded to the dtype of sums; `before` words precede them."""
    runs = [*rows[1], *columns[1]]
    entries: list[int] = []
    weights: list[int] = []
    known: dict[tuple[float, ...], int] = {}
    for start, own in runs:
        if own not in known:
            known[own] = before + 3 * len(runs) + len(weights)
            weights += [_bits(weight, dtype) for weight in own]
        entries += [start, len(own), known[own]]
    return [*entries, *weights]


def _bits(weight: float, dtype: DType) -> int:
    rounded = weight if dtype.name == "float64" else struct.unpack("<f", struct.pack("<f", weight))[0]
    return int(struct.unpack("<q", struct.pack("<d", rounded))[0])


class RunWriter:
    """Writes one kernel. Subclasses that traverse runs of rows and columns override `pixel`."""

    head = _HEAD
    """Words before those of the runs."""

    def __init__(self, kernel: Resample) -> None:
        self.kernel, self.writer = kernel, Writer()
        self.operand = Operand(kernel.dtype, "contiguous")
        self.element, self.kind = MEMORY[kernel.dtype.name], compute_type(kernel.dtype)
        self.scalar = COMPUTE[kernel.dtype.name]

    def render(self, name: str) -> str:
        writer = self.writer
        source, target = (word(writer, place, "ptr") for place in range(2))
        rows, columns, self.channels, total, share = (word(writer, place) for place in range(2, 7))
        self.steps = [word(writer, place) for place in range(7, _HEAD)]
        first, last = bounds(writer, "%task", share, total)
        with counted_loop(writer, first, last, 1, "row") as row:
            image = writer.value(f"udiv i64 {row.index}, {rows}")
            place = writer.value(f"urem i64 {row.index}, {rows}")
            start, count, weights = self._run(place)
            lines = self._moved(self._moved(source, image, self.steps[0]), start, self.steps[1])
            output = self._moved(self._moved(target, image, self.steps[3]), place, self.steps[4])
            with counted_loop(writer, 0, columns, 1, "column") as column:
                run = self._run(writer.value(f"add i64 {rows}, {column.index}"))
                pixel = self._moved(lines, run[0], self.steps[2])
                self.at = (image, start, run[0], place, column.index, columns)
                result = self._moved(output, column.index, self.steps[5])
                self.pixel(pixel, result, (count, weights), run[1:])
        return writer.module(name)

    def pixel(self, source: str, target: str, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Writes a pixel of the result from the runs (count, word of the weights) that begin at `source`."""
        writer = self.writer
        for parts in self.parts():
            with counted_loop(writer, 0, rows[0], 1, "down", self.zeros) as down:
                line = self._moved(source, down.index, self.steps[1])
                with counted_loop(writer, 0, columns[0], 1, "across", self.zeros) as across:
                    pixel = self._moved(line, across.index, self.steps[2])
                    values = [load_operand(writer, self.operand, pixel, part) for part in parts]
                    across.next = self._added(across.carried, values, self._weight(columns[1], across.index))
                down.next = self._added(down.carried, across.next, self._weight(rows[1], down.index))
            self.store(target, parts, down.next)

    @property
    def zeros(self) -> list[Typed]:
        """The initial sums of a pixel's vectors."""
        return [(self.kind, "zeroinitializer")] * self.kernel.vectors

    def parts(self) -> Iterator[list[Part]]:
        """Yields the vectors of channels that are computed at a time, inside the loop over them."""
        writer, count = self.writer, self.kernel.vectors
        if count == 1:
            for part in vectors(writer, 0, self.channels, "channel"):
                yield [part]
            return
        with counted_loop(writer, 0, self.channels, count * LANES, "channel") as loop:
            others = [writer.value(f"add i64 {loop.index}, {number * LANES}") for number in range(1, count)]
            yield [Part(position) for position in (loop.index, *others)]

    def store(self, target: str, parts: Sequence[Part], values: Sequence[str]) -> None:
        """Stores the vectors of a pixel; sums of 16-bit floats are rounded here."""
        dtype = self.kernel.dtype
        for part, value in zip(parts, values, strict=True):
            value = round_to_half(self.writer, value, dtype) if dtype.is_half else value
            store_operand(self.writer, self.operand, target, part, value)

    def _added(self, sums: list[str], values: list[str], weight: str) -> list[str]:
        products = [self.writer.value(f"fmul {self.kind} {value}, {weight}") for value in values]
        return [self.writer.value(f"fadd {self.kind} {old}, {new}") for old, new in zip(sums, products, strict=True)]

    def _run(self, number: str) -> tuple[str, str, str]:
        """(start, count, word of the weights) of an output row, or of a column, which are numbered after the rows."""
        writer = self.writer
        first = writer.value(f"add i64 {writer.value(f'mul i64 {number}, 3')}, {self.head}")
        start, count, weights = (
            word(writer, writer.value(f"add i64 {first}, {offset}") if offset else first) for offset in range(3)
        )
        return start, count, weights

    def _weight(self, first: str, number: Integer) -> str:
        value = word(self.writer, self.writer.value(f"add i64 {first}, {number}"), "double")
        if self.scalar != "double":
            value = self.writer.value(f"fptrunc double {value} to {self.scalar}")
        return broadcast(self.writer, self.scalar, value)

    def _moved(self, place: str, count: Integer, step: str) -> str:
        return stepped(self.writer, self.element, place, count, step)

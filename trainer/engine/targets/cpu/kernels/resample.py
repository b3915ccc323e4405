"""Resampling of channels-last images: weighted sums of runs of rows and columns. Sizes and runs are arguments.

Numerics class "exact": for each row of the run, ascending, the products of its columns, ascending, are added up from
zero; the sum times the row's weight is added to the result, from zero. bfloat16 is summed in float32.

Function: `void name(ptr arguments, i64 task)`. Argument words: addresses of x and y; output rows P, columns Q,
channels; rows in all (N·P) and rows of a task; elements between images, rows and pixels of x, then of y; then for each
output row and each output column (start, count, the word where its weights begin); then weights as float64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.primitives.resampling import Band
from trainer.engine.program.spec import Operand
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.expression import LANES, MEMORY, compute_type
from trainer.engine.targets.cpu.kernels.loops import broadcast, carried_loop, counted_loop, minimum, vector_loop
from trainer.engine.targets.cpu.kernels.writer import Writer

_HEAD = 13
_TASK_PRODUCTS = 65536


@dataclass(frozen=True, slots=True)
class Resample:
    """A kernel that computes `vectors` vectors of channels at a time; with one, channels may be any number."""

    dtype: DType
    vectors: int


def kernel_for(dtype: DType, channels: int) -> Resample:
    """The widest kernel that `channels` fill."""
    return Resample(dtype, next(count for count in (4, 2, 1) if channels % (count * LANES) == 0 or count == 1))


def rows_per_task(rows: Band, columns: Band, channels: int) -> int:
    """How many output rows a task computes: from the shape alone."""
    longest = max((len(weights) for _, weights in rows[1]), default=0)
    products = longest * sum(len(weights) for _, weights in columns[1]) * channels
    return max(1, _TASK_PRODUCTS // max(1, products))


def tail_words(dtype: DType, rows: Band, columns: Band, before: int) -> list[int]:
    """The words of the runs, and the weights, rounded to the dtype that is summed in, behind `before` others."""
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


def render_resample(kernel: Resample, name: str) -> str:
    """The module text of `kernel`."""
    return RunWriter(kernel).render(name)


class RunWriter:
    """One kernel while it is written. Others that go over runs of rows and columns replace `pixel`."""

    head = _HEAD
    """Words before those of the runs."""

    def __init__(self, kernel: Resample) -> None:
        self.kernel, self.writer = kernel, Writer()
        self.operand = Operand(kernel.dtype, "contiguous")
        self.element, self.kind = MEMORY[kernel.dtype.name], compute_type(kernel.dtype)
        self.scalar = self.kind[1:-1].split(" x ")[1]

    def render(self, name: str) -> str:
        writer = self.writer
        source, target = (self._word(str(place), "ptr") for place in range(2))
        rows, columns, self.channels, total, share = (self._word(str(place)) for place in range(2, 7))
        self.steps = [self._word(str(place)) for place in range(7, _HEAD)]
        first = writer.value(f"mul i64 %task, {share}")
        last = minimum(writer, total, writer.value(f"add i64 {first}, {share}"))

        def row(number: str) -> None:
            image, place = writer.value(f"udiv i64 {number}, {rows}"), writer.value(f"urem i64 {number}, {rows}")
            start, count, weights = self._run(place)
            lines = self._moved(self._moved(source, image, self.steps[0]), start, self.steps[1])
            output = self._moved(self._moved(target, image, self.steps[3]), place, self.steps[4])

            def column(across: str) -> None:
                run = self._run(writer.value(f"add i64 {rows}, {across}"))
                pixel = self._moved(lines, run[0], self.steps[2])
                self.at = (image, start, run[0], place, across, columns)
                self.pixel(pixel, self._moved(output, across, self.steps[5]), (count, weights), run[1:])

            counted_loop(writer, "0", columns, 1, column, "column")

        counted_loop(writer, first, last, 1, row, "row")
        return writer.module(name)

    def pixel(self, source: str, target: str, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Write a pixel of the result from the runs (count, word of the weights) that begin at `source`."""
        writer, vectors = self.writer, self.kernel.vectors

        def body(position: str, mask: str | None) -> None:
            places = [position] + [writer.value(f"add i64 {position}, {n * LANES}") for n in range(1, vectors)]
            zeros = [(self.kind, "zeroinitializer")] * vectors

            def row(number: str, sums: list[str]) -> list[str]:
                line = self._moved(source, number, self.steps[1])

                def column(across: str, inner: list[str]) -> list[str]:
                    pixel = self._moved(line, across, self.steps[2])
                    values = [load_vector(writer, self.operand, pixel, "1", place, mask) for place in places]
                    return self._added(inner, values, self._weight(columns[1], across))

                found = carried_loop(writer, "0", columns[0], 1, zeros, column, "across")
                return self._added(sums, found, self._weight(rows[1], number))

            sums = carried_loop(writer, "0", rows[0], 1, zeros, row, "down")
            for place, value in zip(places, sums, strict=True):
                store_vector(writer, self.operand, target, "1", place, mask, value)

        if vectors == 1:
            vector_loop(writer, "0", self.channels, body, "channel")
        else:
            counted_loop(writer, "0", self.channels, vectors * LANES, lambda place: body(place, None), "channel")

    def _added(self, sums: list[str], values: list[str], weight: str) -> list[str]:
        products = [self.writer.value(f"fmul {self.kind} {value}, {weight}") for value in values]
        return [self.writer.value(f"fadd {self.kind} {old}, {new}") for old, new in zip(sums, products, strict=True)]

    def _word(self, place: str, kind: str = "i64") -> str:
        return self.writer.value(
            f"load {kind}, ptr {self.writer.value(f'getelementptr i64, ptr %arguments, i64 {place}')}"
        )

    def _run(self, number: str) -> tuple[str, str, str]:
        """(start, count, word of the weights) of an output row, or of a column counted from the last row on."""
        word = self.writer.value(f"add i64 {self.writer.value(f'mul i64 {number}, 3')}, {self.head}")
        start, count, weights = (
            self._word(self.writer.value(f"add i64 {word}, {offset}") if offset else word) for offset in range(3)
        )
        return start, count, weights

    def _weight(self, first: str, number: str) -> str:
        value = self._word(self.writer.value(f"add i64 {first}, {number}"), "double")
        if self.scalar != "double":
            value = self.writer.value(f"fptrunc double {value} to {self.scalar}")
        return broadcast(self.writer, self.scalar, value)

    def _moved(self, place: str, count: str, step: str) -> str:
        offset = self.writer.value(f"mul i64 {count}, {step}")
        return self.writer.value(f"getelementptr {self.element}, ptr {place}, i64 {offset}")

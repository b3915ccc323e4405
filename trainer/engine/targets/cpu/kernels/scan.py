"""Cumulative sums and products along one axis, term by term, in any layout; shapes and strides are baked in.

Each term depends on the previous one, so several rows are scanned in parallel: as the lanes of a vector if they are
neighbors in memory, else `_ROWS` rows of scalars.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainer.engine.graph.dtypes import DType, float32
from trainer.engine.targets.cpu.kernels import loops
from trainer.engine.targets.cpu.kernels.access import load_operand, load_vector, store_operand, store_vector
from trainer.engine.targets.ir.expression import (
    MEMORY,
    cast,
    combined,
    compute_type,
    constant,
    narrow,
    widen,
)
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import Writer

_TASK_ELEMENTS = 16384
_ROWS = 4


@dataclass(frozen=True, slots=True)
class Scan:
    """y = numpy.cumsum(x, axis), or cumprod, in x's dtype; 16-bit floats accumulate in float32. Addresses: (x, y).

    Strides are in elements along the logical axes.
    """

    operation: Literal["add", "multiply"]
    dtype: DType
    shape: tuple[int, ...]
    axis: int
    input_strides: tuple[int, ...]
    output_strides: tuple[int, ...]

    @property
    def vector_axis(self) -> int | None:
        """A kept axis along which both arrays are contiguous, or None."""
        for axis, size in enumerate(self.shape):
            if axis != self.axis and size > 1 and self.input_strides[axis] == self.output_strides[axis] == 1:
                return axis
        return None

    @property
    def row_axes(self) -> tuple[int, ...]:
        others = [axis for axis in range(len(self.shape)) if axis not in (self.axis, self.vector_axis)]
        return tuple(sorted(others, key=lambda axis: -self.input_strides[axis]))

    @property
    def row_space(self) -> list[tuple[int, int, int]]:
        """(size, step in x, step in y) of each axis that rows differ in, the innermost last, merged if possible."""
        space: list[tuple[int, int, int]] = []
        for axis in self.row_axes:
            size, steps = self.shape[axis], (self.input_strides[axis], self.output_strides[axis])
            if space and space[-1][1:] == (size * steps[0], size * steps[1]):
                size *= space.pop()[0]
            space.append((size, *steps))
        return space or [(1, 0, 0)]

    @property
    def rows(self) -> int:
        return math.prod(self.shape[axis] for axis in self.row_axes)

    @property
    def rows_per_task(self) -> int:
        if self.vector_axis is None:
            return max(1, _TASK_ELEMENTS // max(1, self.shape[self.axis]), min(_ROWS, self.rows // _ROWS))
        return max(1, _TASK_ELEMENTS // max(1, self.shape[self.vector_axis] * self.shape[self.axis]))

    @property
    def tasks(self) -> int:
        return 0 if 0 in self.shape else -(-self.rows // self.rows_per_task)

    def render(self, name: str) -> str:
        """The module text, exporting `void name(ptr arguments, i64 task)`; arguments are two addresses: x, y."""
        writer = Writer()
        bases = [loops.word(writer, place, "ptr") for place in range(2)]
        sizes, *strides = ([each[field] for each in self.row_space] for field in range(3))
        arguments = loops.Arguments([Operand(self.dtype, "contiguous")] * 2, bases, sizes, strides)
        first, last = loops.bounds(writer, "%task", self.rows_per_task, self.rows)
        with loops.each_run(writer, arguments, len(sizes), first, last) as run:
            if self.vector_axis is None:
                self._side_by_side(writer, run)
            else:
                with loops.each_row(writer, arguments, run) as places:
                    for part in loops.vectors(writer, 0, self.shape[self.vector_axis], "row"):
                        _scan(writer, self, places, part)
        return writer.module(name)

    def _side_by_side(self, writer: Writer, run: loops.Run) -> None:
        element = MEMORY[self.dtype.name]
        whole = loops.whole_vectors(writer, 0, run.count, _ROWS)
        for start, stop, rows in (("0", whole, _ROWS), (whole, run.count, 1)):
            with loops.counted_loop(writer, start, stop, rows, f"rows.{rows}") as loop:
                places = [
                    loops.stepped(writer, element, place, loop.index, step)
                    for place, step in zip(run.places, run.steps, strict=True)
                ]
                _scan(writer, self, places, None, [[row * int(step) for step in run.steps] for row in range(rows)])


def _scan(
    writer: Writer, kernel: Scan, places: Sequence[str], part: loops.Part | None,
    rows: Sequence[Sequence[int]] = ((0, 0),),
) -> None:  # fmt: skip
    """Scans a part of the vector axis (None: one element) of rows at the offsets `rows` from `places`, end to end."""
    dtype, lanes = kernel.dtype, part.lanes if part else 1
    working = float32 if dtype.is_half else dtype
    operand = Operand(dtype, "contiguous")
    neutral = 1 if kernel.operation == "multiply" else -0.0 if working.is_float else 0  # -0 + x is x, also for x = -0
    start = constant(working, neutral)
    initial = [("ptr", places[0]), ("ptr", places[1]), *[(compute_type(working, lanes), start)] * len(rows)]
    with loops.counted_loop(writer, 0, kernel.shape[kernel.axis], 1, "scan", initial) as loop:
        heads, totals = loop.carried[:2], loop.carried[2:]
        for row, offsets in enumerate(rows):
            source, target = (
                loops.advance(writer, operand, head, offset) for head, offset in zip(heads, offsets, strict=True)
            )
            if part is None:
                value = widen(writer, load_vector(writer, dtype, source, 1), dtype, 1)
            else:
                value = load_operand(writer, operand, source, part)
            totals[row] = combined(writer, kernel.operation, working, totals[row], value, lanes)
            rounded = cast(writer, totals[row], working, dtype, lanes)
            if part is None:
                store_vector(writer, dtype, narrow(writer, rounded, dtype, 1), target, 1)
            else:
                store_operand(writer, operand, target, part, rounded)
        steps = (kernel.input_strides[kernel.axis], kernel.output_strides[kernel.axis])
        loop.next = [loops.advance(writer, operand, head, by) for head, by in zip(heads, steps, strict=True)] + totals

"""Cumulative sums and products along one axis, term after term, in any layout; shapes and strides are baked in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from trainer.engine.graph.dtypes import DType, float32
from trainer.engine.targets.cpu.kernels import loops
from trainer.engine.targets.cpu.kernels.access import load_operand, load_vector, store_operand, store_vector
from trainer.engine.targets.cpu.kernels.expression import cast, combined, compute_type, constant, narrow, widen
from trainer.engine.targets.cpu.kernels.loop_kernel import Operand
from trainer.engine.targets.cpu.kernels.writer import Writer

_TASK_ELEMENTS = 16384


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
        """A kept axis along which both arrays are contiguous, None where there is none."""
        for axis, size in enumerate(self.shape):
            if axis != self.axis and size > 1 and self.input_strides[axis] == self.output_strides[axis] == 1:
                return axis
        return None

    @property
    def row_axes(self) -> tuple[int, ...]:
        others = [axis for axis in range(len(self.shape)) if axis not in (self.axis, self.vector_axis)]
        return tuple(sorted(others, key=lambda axis: -self.input_strides[axis]))

    @property
    def rows(self) -> int:
        return math.prod(self.shape[axis] for axis in self.row_axes)

    @property
    def rows_per_task(self) -> int:
        width = 1 if self.vector_axis is None else self.shape[self.vector_axis]
        return max(1, _TASK_ELEMENTS // max(1, width * self.shape[self.axis]))

    @property
    def tasks(self) -> int:
        return 0 if 0 in self.shape else -(-self.rows // self.rows_per_task)

    def render(self, name: str) -> str:
        """The module text, exporting `void name(ptr arguments, i64 task)`; arguments are two addresses: x, y."""
        writer = Writer()
        bases = [loops.word(writer, place, "ptr") for place in range(2)]
        both = self.input_strides, self.output_strides
        strides = [[steps[axis] for axis in self.row_axes] or [0] for steps in both]
        sizes = [self.shape[axis] for axis in self.row_axes] or [1]
        arguments = loops.Arguments([Operand(self.dtype, "contiguous")] * 2, bases, sizes, strides)
        first, last = loops.bounds(writer, "%task", self.rows_per_task, self.rows)
        with loops.each_point(writer, arguments, len(sizes), first, last) as places:
            if self.vector_axis is None:
                _scan(writer, self, places, None)
            else:
                for part in loops.vectors(writer, 0, self.shape[self.vector_axis], "row"):
                    _scan(writer, self, places, part)
        return writer.module(name)


def _scan(writer: Writer, kernel: Scan, places: list[str], part: loops.Part | None) -> None:
    """A part of the kept axes (None: one element), along the whole axis."""
    dtype, lanes = kernel.dtype, part.lanes if part else 1
    working = float32 if dtype.is_half else dtype
    operand = Operand(dtype, "contiguous")
    neutral = 1 if kernel.operation == "multiply" else -0.0 if working.is_float else 0  # -0 + x is x, also for x = -0
    start = constant(working, neutral)
    initial = [("ptr", places[0]), ("ptr", places[1]), (compute_type(working, lanes), start)]
    with loops.counted_loop(writer, 0, kernel.shape[kernel.axis], 1, "scan", initial) as loop:
        source, target, total = loop.carried
        if part is None:
            value = widen(writer, load_vector(writer, dtype, source, 1), dtype, 1)
        else:
            value = load_operand(writer, operand, source, part)
        total = combined(writer, kernel.operation, working, total, value, lanes)
        rounded = cast(writer, total, working, dtype, lanes)
        if part is None:
            store_vector(writer, dtype, narrow(writer, rounded, dtype, 1), target, 1)
        else:
            store_operand(writer, operand, target, part, rounded)
        steps = (kernel.input_strides[kernel.axis], kernel.output_strides[kernel.axis])
        moved = [loops.advance(writer, operand, place, by) for place, by in zip((source, target), steps, strict=True)]
        loop.next = [*moved, total]

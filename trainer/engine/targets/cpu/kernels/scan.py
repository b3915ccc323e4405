"""Cumulative sums along one axis, term after term, whatever the layout; shapes and strides are baked in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType, float32
from trainer.engine.program.spec import Instruction, Operand
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.expression import (
    LANES,
    MEMORY,
    cast,
    compute_type,
    constant,
    memory_type,
    narrow,
    render_body,
    widen,
)
from trainer.engine.targets.cpu.kernels.loops import (
    Arguments,
    advance,
    carried_loop,
    for_each_row,
    for_each_run,
    minimum,
    vector_loop,
)
from trainer.engine.targets.cpu.kernels.writer import Writer

_TASK_ELEMENTS = 16384


@dataclass(frozen=True, slots=True)
class CumulativeSum:
    """y = numpy.cumsum(x, axis) in x's dtype; 16-bit floats accumulate in float32. Addresses: (x, y).

    Strides are in elements along the logical axes.
    """

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


def tasks(kernel: CumulativeSum) -> int:
    """How many tasks the grid of `kernel` has."""
    return 0 if 0 in kernel.shape else -(-kernel.rows // kernel.rows_per_task)


def render_cumulative_sum(kernel: CumulativeSum, name: str) -> str:
    """The module text, exporting `void name(ptr arguments, i64 task)`; arguments are two addresses: x, y."""
    writer = Writer()
    bases = []
    for word in range(2):
        place = writer.value(f"getelementptr i64, ptr %arguments, i64 {word}")
        bases.append(writer.value(f"load ptr, ptr {place}"))
    operand = Operand(kernel.dtype, "contiguous")
    strides = [
        [str(steps[axis]) for axis in kernel.row_axes] or ["0"]
        for steps in (kernel.input_strides, kernel.output_strides)
    ]
    sizes = [str(kernel.shape[axis]) for axis in kernel.row_axes] or ["1"]
    arguments = Arguments([operand, operand], bases, sizes, strides, "0", "0")
    element = MEMORY[kernel.dtype.name]
    first = writer.value(f"mul i64 %task, {kernel.rows_per_task}")
    last = minimum(writer, str(kernel.rows), writer.value(f"add i64 {first}, {kernel.rows_per_task}"))

    def row(places: list[str]) -> None:
        if kernel.vector_axis is None:
            _scan(writer, kernel, places, None, None, 1)
        else:
            width = str(kernel.shape[kernel.vector_axis])
            vector_loop(
                writer, "0", width, lambda position, mask: _scan(writer, kernel, places, position, mask, LANES), "row"
            )

    for_each_run(
        writer, arguments, [element, element], len(sizes), first, last,
        lambda run: for_each_row(writer, arguments, [element, element], run, run.count, run.places, row),
    )  # fmt: skip
    return writer.module(name)


def _scan(
    writer: Writer, kernel: CumulativeSum, places: list[str], position: str | None, mask: str | None, lanes: int
) -> None:
    """One vector (or one element) of the kept axes, along the whole axis."""
    dtype = kernel.dtype
    working = float32 if dtype.is_half else dtype
    operand, element, itemsize = Operand(dtype, "contiguous"), MEMORY[dtype.name], dtype.itemsize
    add = [
        Instruction("load", (), working, (0,)),
        Instruction("load", (), working, (1,)),
        Instruction("add", (0, 1), working),
    ]

    def step(_: str, carried: list[str]) -> list[str]:
        source, target, total = carried
        if position is None:
            value = widen(
                writer, writer.value(f"load {memory_type(dtype, 1)}, ptr {source}, align {itemsize}"), dtype, 1
            )
        else:
            value = load_vector(writer, operand, source, "1", position, mask)
        total = render_body(writer, add, [total, value], lanes)[-1]
        rounded = cast(writer, total, working, dtype, lanes)
        if position is None:
            raw = narrow(writer, rounded, dtype, 1)
            writer.emit(f"store {memory_type(dtype, 1)} {raw}, ptr {target}, align {itemsize}")
        else:
            store_vector(writer, operand, target, "1", position, mask, rounded)
        steps = (kernel.input_strides[kernel.axis], kernel.output_strides[kernel.axis])
        moved = [
            advance(writer, operand, element, place, str(by)) for place, by in zip((source, target), steps, strict=True)
        ]
        return [*moved, total]

    start = constant(working, -0.0 if working.is_float else 0)  # -0 + x is x, also for x = -0
    initial = [("ptr", places[0]), ("ptr", places[1]), (compute_type(working, lanes), start)]
    carried_loop(writer, "0", str(kernel.shape[kernel.axis]), 1, initial, step, "scan")

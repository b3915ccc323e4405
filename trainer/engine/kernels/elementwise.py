"""Kernels without a reduction: a body evaluated at every point of the space, vectorised along the innermost dimension.

Rows are walked with one division per run of rows. Where every strided input is contiguous along the next dimension out
(a transposing copy), tiles of 16 x 16 are transposed through a scratch that stays in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.kernels.access import load_vector, row_value, store_vector
from trainer.engine.kernels.expression import LANES, MEMORY, render_body
from trainer.engine.kernels.loops import (
    Arguments,
    Run,
    for_each_row,
    for_each_run,
    load_arguments,
    minimum,
    vector_loop,
)
from trainer.engine.kernels.spec import LoopKernel
from trainer.engine.kernels.writer import Writer


def render(kernel: LoopKernel, name: str) -> str:
    """The module text of `kernel` (which has no reduction), exporting `void name(ptr arguments, i64 task)`."""
    if kernel.reduction is not None:
        raise ValueError("a kernel with a reduction is rendered by render_reduction")
    if kernel.rank < 1:
        raise ValueError("a space without dimensions is passed as one dimension of size 1")
    writer = Writer()
    writer.label("entry")
    arguments = load_arguments(writer, kernel)
    elements = [MEMORY[operand.dtype.name] for operand in arguments.operands]
    first = writer.value(f"mul i64 %task, {arguments.chunk}")
    if kernel.rank == 1:
        last = minimum(writer, arguments.sizes[0], writer.value(f"add i64 {first}, {arguments.chunk}"))
        _render_row(writer, kernel, arguments, arguments.bases, first, last)
    else:
        rows = arguments.sizes[0]
        for size in arguments.sizes[1:-1]:
            rows = writer.value(f"mul i64 {rows}, {size}")
        last = minimum(writer, rows, writer.value(f"add i64 {first}, {arguments.chunk}"))

        def run(run: Run) -> None:
            for_each_row(
                writer, arguments, elements, run, run.count, run.places,
                lambda places: _render_row(writer, kernel, arguments, places, "0", arguments.sizes[-1]),
            )  # fmt: skip

        for_each_run(writer, arguments, elements, kernel.rank - 1, first, last, run)
    writer.emit("ret void")
    return writer.module(name)


def _render_row(
    writer: Writer, kernel: LoopKernel, arguments: Arguments, places: Sequence[str], start: str, stop: str
) -> None:
    """Positions [start, stop) of the row whose operands begin at `places`."""
    fixed = {
        number: row_value(writer, operand, places[number])
        for number, operand in enumerate(kernel.inputs)
        if operand.inner == "broadcast"
    }

    def body(position: str, mask: str | None) -> None:
        loaded = [
            fixed[number]
            if number in fixed
            else load_vector(writer, operand, places[number], arguments.strides[number][-1], position, mask)
            for number, operand in enumerate(kernel.inputs)
        ]
        values = render_body(writer, kernel.body, loaded, LANES)
        for number, (instruction, operand) in enumerate(kernel.outputs, len(kernel.inputs)):
            stride = arguments.strides[number][-1]
            store_vector(writer, operand, places[number], stride, position, mask, values[instruction])

    vector_loop(writer, start, stop, body, "row")

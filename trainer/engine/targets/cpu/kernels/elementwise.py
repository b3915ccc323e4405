"""Kernels without a reduction: a body evaluated at every point of the space, vectorised along the innermost dimension.

Rows are walked with one division per run of rows. Where every strided input is contiguous along the next dimension out
(a transposing copy), tiles of 16 x 16 are transposed through a scratch that stays in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainer.engine.program.spec import Instruction, LoopKernel
from trainer.engine.targets.cpu.kernels import mathematics
from trainer.engine.targets.cpu.kernels.access import load_vector, row_value, store_vector
from trainer.engine.targets.cpu.kernels.expression import LANES, MEMORY, memory_type, render_body, widen
from trainer.engine.targets.cpu.kernels.loops import (
    Arguments,
    Run,
    advance,
    counted_loop,
    for_each_row,
    for_each_run,
    load_arguments,
    masked_loop,
    minimum,
    place_at,
    vector_loop,
)
from trainer.engine.targets.cpu.kernels.transpose import transpose_tile
from trainer.engine.targets.cpu.kernels.writer import Writer

INTERLEAVED = 2 * LANES
"""Elements that a loop past the caches takes at once. Each instruction stands twice, so that one waits less for
another, and 2-byte elements are stored by whole cache lines, a third faster.
"""

INTERLEAVED_APPROXIMATIONS = 4 * LANES
"""As INTERLEAVED, where a function is approximated: in the first-level cache tanh takes 2.9 ns for 16 elements this
way and 3.1 the other.
"""

PREFETCHED_ARRAYS = 3
"""Inputs from so many on are asked for ahead even by a short body: at 25 MB each, x * y + z runs at 0.89 of a copy's
speed instead of 0.87, Adam's update at 1.07 instead of 1.03.
"""


def render(kernel: LoopKernel, name: str) -> str:
    """The module text of `kernel` (which has no reduction), exporting `void name(ptr arguments, i64 task)`."""
    if kernel.reduction is not None:
        raise ValueError("a kernel with a reduction is rendered by render_reduction")
    if kernel.rank < 1:
        raise ValueError("a space without dimensions is passed as one dimension of size 1")
    writer = Writer()
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

        tiled = _tiled_operands(kernel)
        scratch = {number: writer.value(f"alloca [{LANES * LANES} x {elements[number]}], align 64") for number in tiled}

        def rows_of(run: Run) -> None:
            def row(places: list[str], masked_only: bool = False) -> None:
                _render_row(writer, kernel, arguments, places, "0", arguments.sizes[-1], masked_only)

            if not tiled:
                for_each_row(writer, arguments, elements, run, run.count, run.places, row)
                return
            count, rest = _render_tiles(writer, kernel, arguments, elements, run, scratch)
            for_each_row(
                writer, arguments, elements, run, count, rest, lambda places: row(places, len(kernel.body) > 8)
            )

        for_each_run(writer, arguments, elements, kernel.rank - 1, first, last, rows_of)
    if kernel.streamed:
        writer.emit("fence seq_cst")  # streaming stores are ordered by nothing less
    return writer.module(name)


def _render_row(
    writer: Writer, kernel: LoopKernel, arguments: Arguments, places: Sequence[str], start: str, stop: str,
    masked_only: bool = False,
) -> None:  # fmt: skip
    """Positions [start, stop) of the row whose operands begin at `places`."""

    arrays = sum(operand.inner == "contiguous" and not operand.index for operand in kernel.inputs)
    prefetched = kernel.streamed and (approximates(kernel.body) or arrays >= PREFETCHED_ARRAYS)

    def body_of(lanes: int) -> Callable[[str, str | None], None]:
        fixed = {
            number: row_value(writer, operand, places[number], lanes)
            for number, operand in enumerate(kernel.inputs)
            if operand.inner == "broadcast"
        }

        def body(position: str, mask: str | None) -> None:
            loaded = [
                fixed[number]
                if number in fixed
                else load_vector(
                    writer, operand, places[number], arguments.strides[number][-1], position, mask, prefetched, lanes
                )
                for number, operand in enumerate(kernel.inputs)
            ]  # fmt: skip
            _compute(writer, kernel, arguments, loaded, places, position, mask, lanes)

        return body

    if kernel.streamed and all(o.inner in ("contiguous", "broadcast") and not o.index for o in arguments.operands):
        length = writer.value(f"sub i64 {stop}, {start}")
        lanes = INTERLEAVED_APPROXIMATIONS if approximates(kernel.body) else INTERLEAVED
        middle = writer.value(f"add i64 {start}, {writer.value(f'and i64 {length}, {-lanes}')}")
        wide = body_of(lanes)
        counted_loop(writer, start, middle, lanes, lambda position: wide(position, None), "row.wide")
        start = middle
    body = body_of(LANES)
    if masked_only:
        masked_loop(writer, start, stop, body, "row")
    else:
        vector_loop(writer, start, stop, body, "row")


def approximates(body: Sequence[Instruction]) -> bool:
    """Whether a body has a function of some tens of instructions in it."""
    return any(instruction.operation in mathematics.MAXIMUM_ULP for instruction in body)


def _compute(
    writer: Writer, kernel: LoopKernel, arguments: Arguments, loaded: Sequence[str], places: Sequence[str],
    position: str, mask: str | None, lanes: int = LANES,
) -> None:  # fmt: skip
    """The body on loaded operands, and the stores of its outputs."""
    values = render_body(writer, kernel.body, loaded, lanes)
    for number, (instruction, operand) in enumerate(kernel.outputs, len(kernel.inputs)):
        stride = arguments.strides[number][-1]
        value = values[instruction]
        store_vector(writer, operand, places[number], stride, position, mask, value, kernel.streamed, lanes)


def _tiled_operands(kernel: LoopKernel) -> list[int]:
    """Inputs in memory that are strided along the innermost dimension, where all outputs are contiguous."""
    if any(operand.inner != "contiguous" for _, operand in kernel.outputs):
        return []
    return [n for n, operand in enumerate(kernel.inputs) if operand.inner == "strided" and not operand.index]


def _render_tiles(
    writer: Writer, kernel: LoopKernel, arguments: Arguments, elements: Sequence[str], run: Run, scratch: dict[int, str]
) -> tuple[str, list[str]]:
    """Does the rows of `run` that fill tiles of LANES rows; returns how many are left, and their places.

    Applies where every operand in `scratch` has stride 1 from row to row, known at run time; else all are left.
    """
    fits = "true"
    for number in scratch:
        fits = writer.value(f"and i1 {fits}, {writer.value(f'icmp eq i64 {run.steps[number]}, 1')}")
    whole = writer.value(f"and i64 {run.count}, {-LANES}")
    done = writer.value(f"select i1 {fits}, i64 {whole}, i64 0")

    def moved(rows: str) -> list[str]:
        return [
            advance(writer, operand, element, place, writer.value(f"mul i64 {rows}, {step}"))
            for operand, element, place, step in zip(arguments.operands, elements, run.places, run.steps, strict=True)
        ]

    def group(first_row: str) -> None:
        corner = moved(first_row)

        def tile(position: str, mask: str | None) -> None:
            width = minimum(writer, writer.value(f"sub i64 {arguments.sizes[-1]}, {position}"), str(LANES))
            starts = list(corner)
            for number, memory in scratch.items():
                operand, stride = kernel.inputs[number], arguments.strides[number][-1]
                source = place_at(writer, operand, elements[number], corner[number], [(position, stride)])
                transpose_tile(writer, elements[number], operand.dtype.itemsize, source, stride, width, memory)
                starts[number] = memory
            steps = [str(LANES) if number in scratch else step for number, step in enumerate(run.steps)]

            def row(places: list[str]) -> None:
                loaded = []
                for number, operand in enumerate(kernel.inputs):
                    place, stride = places[number], arguments.strides[number][-1]
                    if operand.inner == "broadcast":
                        loaded.append(row_value(writer, operand, place))
                    elif number in scratch:
                        kind = memory_type(operand.dtype)
                        raw = writer.value(f"load {kind}, ptr {place}, align 16")
                        loaded.append(widen(writer, raw, operand.dtype))
                    else:
                        loaded.append(load_vector(writer, operand, place, stride, position, mask))
                _compute(writer, kernel, arguments, loaded, places, position, mask)

            for_each_row(writer, arguments, elements, Run(str(LANES), starts, steps), str(LANES), starts, row)

        vector_loop(writer, "0", arguments.sizes[-1], tile, "tile")

    counted_loop(writer, "0", done, LANES, group, "group")
    return writer.value(f"sub i64 {run.count}, {done}"), moved(done)

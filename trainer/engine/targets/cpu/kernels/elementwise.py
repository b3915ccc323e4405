"""Kernels without a reduction: a body evaluated at every point of the space, vectorized along the innermost dimension.

Rows are traversed with one division per run of rows. If every strided input is contiguous along the next outer
dimension (a transposing copy), tiles of 16x16 are transposed through a scratch that stays in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.program.spec import Instruction
from trainer.engine.targets.cpu.kernels import loops
from trainer.engine.targets.cpu.kernels.access import load_inputs, load_operand, load_vector, row_values, store_operand
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.kernels.transpose import transpose_tile
from trainer.engine.targets.ir import mathematics
from trainer.engine.targets.ir.expression import LANES, render_body, widen
from trainer.engine.targets.ir.writer import Integer, Writer

INTERLEAVED = 2 * LANES
"""Elements per iteration of a loop with streaming stores: two of each instruction, and whole cache lines stored."""

INTERLEAVED_APPROXIMATIONS = 4 * LANES
"""As INTERLEAVED, if a function is approximated: tanh in the first-level cache takes 2.9 ns for 16, not 3.1."""

PREFETCHED_ARRAYS = 3
"""Number of inputs from which a short body also prefetches: Adam's update at 1.07 of a copy's speed, not 1.03."""


def render(kernel: LoopKernel, name: str) -> str:
    """The module text of `kernel` (which has no reduction), exporting `void name(ptr arguments, i64 task)`."""
    if kernel.reduction is not None:
        raise ValueError("a kernel with a reduction is rendered by render_reduction")
    if kernel.rank < 1:
        raise ValueError("a space without dimensions is passed as one dimension of size 1")
    writer = Writer()
    arguments = loops.load_arguments(writer, kernel)
    if kernel.rank == 1:
        first, last = loops.bounds(writer, "%task", arguments.chunk, arguments.sizes[0])
        _render_row(writer, kernel, arguments, arguments.bases, first, last)
    else:
        first = writer.value(f"mul i64 %task, {arguments.chunk}")
        rows = loops.product(writer, arguments.sizes[:-1])
        last = loops.minimum(writer, rows, writer.value(f"add i64 {first}, {arguments.chunk}"))
        tiled = tiled_operands(kernel)
        scratch = {
            number: writer.value(f"alloca [{LANES * LANES} x {arguments.elements[number]}], align 64")
            for number in tiled
        }
        with loops.each_run(writer, arguments, kernel.rank - 1, first, last) as run:
            rest = _render_tiles(writer, kernel, arguments, run, scratch) if tiled else run
            with loops.each_row(writer, arguments, rest) as places:
                masked = bool(tiled) and len(kernel.body) > 8
                _render_row(writer, kernel, arguments, places, 0, arguments.sizes[-1], masked)
    if kernel.streamed:
        writer.emit("fence seq_cst")  # no weaker fence orders streaming stores
    return writer.module(name)


def _render_row(
    writer: Writer, kernel: LoopKernel, arguments: loops.Arguments, places: Sequence[str], start: Integer,
    stop: Integer, masked: bool = False,
) -> None:  # fmt: skip
    """Writes positions [start, stop) of the row whose operands begin at `places`."""

    arrays = sum(operand.inner == "contiguous" and not operand.index for operand in kernel.inputs)
    prefetched = kernel.streamed and (approximates(kernel.body) or arrays >= PREFETCHED_ARRAYS)

    def body(known: dict[int, str], part: loops.Part) -> None:
        loaded = load_inputs(writer, kernel.inputs, known, places, part, arguments.strides, prefetched=prefetched)
        _compute(writer, kernel, arguments, loaded, places, part)

    if kernel.streamed and all(
        o.inner == "broadcast" or (o.inner == "contiguous" and not o.index) for o in arguments.operands
    ):
        lanes = INTERLEAVED_APPROXIMATIONS if approximates(kernel.body) else INTERLEAVED
        middle = loops.whole_vectors(writer, start, stop, lanes)
        known = row_values(writer, kernel.inputs, places, lanes)
        with loops.counted_loop(writer, start, middle, lanes, "row.wide") as loop:
            body(known, loops.Part(loop.index, lanes=lanes))
        start = middle
    known = row_values(writer, kernel.inputs, places)
    for part in loops.vectors(writer, start, stop, "row", masked=masked):
        body(known, part)


def approximates(body: Sequence[Instruction]) -> bool:
    """Whether a body contains a function that takes tens of instructions."""
    return any(instruction.operation in mathematics.MAXIMUM_ULP for instruction in body)


def _compute(
    writer: Writer, kernel: LoopKernel, arguments: loops.Arguments, loaded: Sequence[str], places: Sequence[str],
    part: loops.Part,
) -> None:  # fmt: skip
    """Writes the body on loaded operands, and the stores of its outputs."""
    values = render_body(writer, kernel.body, loaded, part.lanes)
    for number, (instruction, operand) in enumerate(kernel.outputs, len(kernel.inputs)):
        stride = arguments.strides[number][-1]
        store_operand(writer, operand, places[number], part, values[instruction], stride, streamed=kernel.streamed)


def tiled_operands(kernel: LoopKernel) -> list[int]:
    """Inputs in memory that are strided along the innermost dimension; none unless all outputs are contiguous."""
    if any(operand.inner != "contiguous" for _, operand in kernel.outputs):
        return []
    return [n for n, operand in enumerate(kernel.inputs) if operand.inner == "strided" and not operand.index]


def _render_tiles(
    writer: Writer, kernel: LoopKernel, arguments: loops.Arguments, run: loops.Run, scratch: dict[int, str]
) -> loops.Run:
    """Writes the rows of `run` that fill tiles of LANES rows; returns the remaining rows.

    Applies if every operand in `scratch` has stride 1 from row to row, known at run time; else all rows remain.
    """
    fits = "true"
    for number in scratch:
        fits = writer.value(f"and i1 {fits}, {writer.value(f'icmp eq i64 {run.steps[number]}, 1')}")
    whole = writer.value(f"and i64 {run.count}, {-LANES}")
    done = writer.value(f"select i1 {fits}, i64 {whole}, i64 0")

    def moved(rows: Integer) -> list[str]:
        return [
            loops.place_at(writer, operand, place, [(rows, step)])
            for operand, place, step in zip(arguments.operands, run.places, run.steps, strict=True)
        ]

    def tile(corner: list[str], part: loops.Part) -> None:
        width = loops.minimum(writer, writer.value(f"sub i64 {arguments.sizes[-1]}, {part.position}"), LANES)
        starts = list(corner)
        for number, memory in scratch.items():
            operand, stride = kernel.inputs[number], arguments.strides[number][-1]
            source = loops.place_at(writer, operand, corner[number], [(part.position, stride)])
            transpose_tile(writer, operand.dtype, source, stride, width, memory)
            starts[number] = memory
        steps = [LANES if number in scratch else step for number, step in enumerate(run.steps)]
        with loops.each_row(writer, arguments, loops.Run(str(LANES), starts, steps)) as places:
            loaded = []
            for number, operand in enumerate(kernel.inputs):
                if number in scratch:
                    raw = load_vector(writer, operand.dtype, places[number], LANES, alignment=16)
                    loaded.append(widen(writer, raw, operand.dtype))
                else:
                    stride = arguments.strides[number][-1]
                    loaded.append(load_operand(writer, operand, places[number], part, stride))
            _compute(writer, kernel, arguments, loaded, places, part)

    with loops.counted_loop(writer, 0, done, LANES, "group") as group:
        corner = moved(group.index)
        for part in loops.vectors(writer, 0, arguments.sizes[-1], "tile"):
            tile(corner, part)
    return loops.Run(writer.value(f"sub i64 {run.count}, {done}"), moved(done), run.steps)

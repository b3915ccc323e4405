"""Merging the means and deviations of blocks, in block order, by Chan's formula (Chan, Golub & LeVeque 1979).

Function: `void name(ptr arguments, i64 task)`; a task covers TASK_COLUMNS kept elements. Argument words: addresses of
the blocks' means and deviations ([blocks, kept] each), addresses of the mean and the deviations of all ([kept] each),
then kept, length (reduced elements in all) and block (those of one block; the last one may hold fewer).
"""

from __future__ import annotations

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Operand
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.expression import LANES, MEMORY, compute_type
from trainer.engine.targets.cpu.kernels.loops import broadcast, carried_loop, masked_loop, minimum
from trainer.engine.targets.cpu.kernels.writer import Writer

TASK_COLUMNS = 256


def merge_tasks(kept: int) -> int:
    """How many tasks the grid has."""
    return -(-kept // TASK_COLUMNS)


def render_merge(dtype: DType, name: str) -> str:
    """The module text of the kernel for statistics of `dtype` (float32 or float64).

    With n elements so far and m in the next block, w = m / (n + m) and d the distance of its mean from the mean so far:
    mean + d·w, and deviations + the block's + d²·(n·w).
    """
    writer = Writer()
    kinds = ("ptr", "ptr", "ptr", "ptr", "i64", "i64", "i64")
    means, deviations, mean, deviation, kept, length, block = (
        writer.value(f"load {kind}, ptr {writer.value(f'getelementptr i64, ptr %arguments, i64 {place}')}")
        for place, kind in enumerate(kinds)
    )
    element, kind, operand = MEMORY[dtype.name], compute_type(dtype), Operand(dtype, "contiguous")
    first = writer.value(f"mul i64 %task, {TASK_COLUMNS}")
    last = minimum(writer, kept, writer.value(f"add i64 {first}, {TASK_COLUMNS}"))

    def columns(position: str, mask: str | None) -> None:
        def of_block(source: str, start: str) -> str:
            row = writer.value(f"mul i64 {writer.value(f'udiv i64 {start}, {block}')}, {kept}")
            place = writer.value(f"getelementptr {element}, ptr {source}, i64 {row}")
            return load_vector(writer, operand, place, "1", position, mask)

        def scalar(value: str) -> str:
            return writer.value(f"uitofp i64 {value} to {element}")

        def merge(share: str, carried: list[str]) -> list[str]:
            start = writer.value(f"mul i64 {share}, {block}")
            stop = minimum(writer, length, writer.value(f"add i64 {start}, {block}"))
            count = scalar(writer.value(f"sub i64 {stop}, {start}"))
            part = writer.value(f"fdiv {element} {count}, {scalar(stop)}")
            both = writer.value(f"fmul {element} {scalar(start)}, {part}")
            distance = writer.value(f"fsub {kind} {of_block(means, start)}, {carried[0]}")
            moved = writer.value(f"fmul {kind} {distance}, {broadcast(writer, element, part)}")
            square = writer.value(f"fmul {kind} {distance}, {distance}")
            between = writer.value(f"fmul {kind} {square}, {broadcast(writer, element, both)}")
            within = writer.value(f"fadd {kind} {carried[1]}, {of_block(deviations, start)}")
            return [
                writer.value(f"fadd {kind} {carried[0]}, {moved}"),
                writer.value(f"fadd {kind} {within}, {between}"),
            ]

        padded = writer.value(f"add i64 {length}, {writer.value(f'sub i64 {block}, 1')}")
        blocks = writer.value(f"udiv i64 {padded}, {block}")
        initial = [(kind, of_block(means, "0")), (kind, of_block(deviations, "0"))]
        merged = carried_loop(writer, "1", blocks, 1, initial, merge, "block")
        for target, value in zip((mean, deviation), merged, strict=True):
            store_vector(writer, operand, target, "1", position, mask, value)

    assert TASK_COLUMNS % LANES == 0
    masked_loop(writer, first, last, columns, "kept")
    return writer.module(name)

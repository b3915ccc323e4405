"""Merges the means and deviations of blocks, in block order, by Chan's formula (Chan, Golub & LeVeque 1979).

Function: `void name(ptr arguments, i64 task)`; a task covers TASK_COLUMNS kept elements. Argument words: addresses of
the blocks' means and deviations ([blocks, kept] each), addresses of the total mean and deviations ([kept] each), then
kept, length (all reduced elements) and block (reduced elements of one block; the last block may have fewer).
"""

from __future__ import annotations

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels.access import load_operand, store_operand
from trainer.engine.targets.cpu.kernels.loops import Part, bounds, broadcast, counted_loop, stepped, vectors, word
from trainer.engine.targets.ir.expression import LANES, MEMORY, compute_type
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import Integer, Writer

TASK_COLUMNS = 256


def merge_tasks(kept: int) -> int:
    """Number of tasks in the grid."""
    return -(-kept // TASK_COLUMNS)


def render_merge(dtype: DType, name: str) -> str:
    """The module text of the kernel for statistics of `dtype` (float32 or float64).

    With n elements so far and m in the next block, w = m / (n + m) and d the difference between its mean and the mean
    so far, the merged values are mean + d·w, and deviations + the block's + d²·(n·w).
    """
    assert TASK_COLUMNS % LANES == 0
    writer = Writer()
    means, deviations, mean, deviation = (word(writer, place, "ptr") for place in range(4))
    kept, length, block = (word(writer, place) for place in range(4, 7))
    element, kind, operand = MEMORY[dtype.name], compute_type(dtype), Operand(dtype, "contiguous")
    first, last = bounds(writer, "%task", TASK_COLUMNS, kept)

    def of_block(source: str, start: Integer, part: Part) -> str:
        place = stepped(writer, element, source, writer.value(f"udiv i64 {start}, {block}"), kept)
        return load_operand(writer, operand, place, part)

    def scalar(value: str) -> str:
        return writer.value(f"uitofp i64 {value} to {element}")

    for part in vectors(writer, first, last, "kept", masked=True):
        padded = writer.value(f"add i64 {length}, {writer.value(f'sub i64 {block}, 1')}")
        blocks = writer.value(f"udiv i64 {padded}, {block}")
        initial = [(kind, of_block(means, 0, part)), (kind, of_block(deviations, 0, part))]
        with counted_loop(writer, 1, blocks, 1, "block", initial) as loop:
            start, stop = bounds(writer, loop.index, block, length)
            count = scalar(writer.value(f"sub i64 {stop}, {start}"))
            share = writer.value(f"fdiv {element} {count}, {scalar(stop)}")
            both = writer.value(f"fmul {element} {scalar(start)}, {share}")
            distance = writer.value(f"fsub {kind} {of_block(means, start, part)}, {loop.carried[0]}")
            moved = writer.value(f"fmul {kind} {distance}, {broadcast(writer, element, share)}")
            square = writer.value(f"fmul {kind} {distance}, {distance}")
            between = writer.value(f"fmul {kind} {square}, {broadcast(writer, element, both)}")
            within = writer.value(f"fadd {kind} {loop.carried[1]}, {of_block(deviations, start, part)}")
            loop.next = [
                writer.value(f"fadd {kind} {loop.carried[0]}, {moved}"),
                writer.value(f"fadd {kind} {within}, {between}"),
            ]
        for target, value in zip((mean, deviation), loop.next, strict=True):
            store_operand(writer, operand, target, part, value)
    return writer.module(name)

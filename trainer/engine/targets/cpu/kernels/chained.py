"""Several loops over the same rows as one kernel: a task runs its block of rows through each loop in order.

A loop's results for a block of rows are still in the cache when the next loop reads them. Arguments: for each part, the
number of its tasks per block of rows, then the words of its argument block; then, for each word of `scratch`, the bytes
per block of rows in the scratch. Task t runs the tasks [t * count, (t + 1) * count) of each part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel, argument_words
from trainer.engine.targets.cpu.kernels.loops import counted_loop, word
from trainer.engine.targets.ir.writer import Writer, internal, joined


@dataclass(frozen=True, slots=True)
class ChainedKernel:
    """The loops in order; `scratch`: words that hold offsets of the block's rows in the scratch, not addresses."""

    kernels: tuple[LoopKernel, ...]
    scratch: tuple[int, ...] = ()


def render(kernel: ChainedKernel, parts: Sequence[Callable[[str], str]], name: str) -> str:
    """The module text, exporting `void name(ptr arguments, i64 task, ptr scratch)`; `parts[i](name)` renders loop i."""
    names: dict[LoopKernel, str] = {}
    texts: list[str] = []
    for loop, part in zip(kernel.kernels, parts, strict=True):
        if loop not in names:
            names[loop] = f"part{len(names)}"
            texts.append(internal(part(names[loop]), names[loop]))
    writer = Writer()
    total = sum(1 + argument_words(loop) for loop in kernel.kernels)
    words = _with_scratch(writer, kernel, total) if kernel.scratch else "%arguments"
    place = 0
    for loop in kernel.kernels:
        count = word(writer, place, block=words)
        block = writer.value(f"getelementptr i64, ptr {words}, i64 {place + 1}")
        first = writer.value(f"mul i64 %task, {count}")
        last = writer.value(f"add i64 {first}, {count}")
        with counted_loop(writer, first, last, 1, "part") as task:
            writer.run(names[loop], (block,), (task.index,))
        place += 1 + argument_words(loop)
    return joined([*texts, writer.module(name, scratch=True)])


def _with_scratch(writer: Writer, kernel: ChainedKernel, total: int) -> str:
    """Returns a copy of the arguments whose `scratch` words are addresses: those at which row 0 would be."""
    copy = writer.value(f"alloca [{total} x i64], align 64")
    block = (("ptr", copy), ("ptr", "%arguments"), ("i64", str(8 * total)), ("i1", "false"))
    writer.intrinsic("memcpy.inline.p0.p0.i64", "void", *block)  # no call: a kernel's object file needs no other

    for number, place in enumerate(kernel.scratch):
        before = writer.value(f"mul i64 %task, {word(writer, total + number)}")
        offset = writer.value(f"sub i64 {word(writer, place)}, {before}")
        address = writer.value(f"getelementptr i8, ptr %scratch, i64 {offset}")
        writer.emit(f"store ptr {address}, ptr {writer.value(f'getelementptr i64, ptr {copy}, i64 {place}')}")
    return copy

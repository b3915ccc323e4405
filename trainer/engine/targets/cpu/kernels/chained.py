"""Several loops over the same rows as one kernel: a task does its block of rows of the first, then of the second, ...

What one loop leaves of a block of rows is still in the cache when the next one reads it. Arguments: for each part, how
many of its tasks a block of rows takes, then the words of its argument block; then, for each word of `scratch`, bytes
that a block of rows takes there. Task t does the tasks [t * count, (t + 1) * count) of each part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel, argument_words
from trainer.engine.targets.cpu.kernels.loops import counted_loop, word
from trainer.engine.targets.ir.writer import Writer, internal, joined


@dataclass(frozen=True, slots=True)
class ChainedKernel:
    """The loops, in order; `scratch`: words that are no addresses, but offsets of the block's rows in the scratch."""

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
    """A copy of the arguments in which the words of `scratch` are addresses: of where row 0 would lie."""
    copy = writer.value(f"alloca [{total} x i64], align 64")
    block = (("ptr", copy), ("ptr", "%arguments"), ("i64", str(8 * total)), ("i1", "false"))
    writer.intrinsic("memcpy.inline.p0.p0.i64", "void", *block)  # no call: a kernel's object needs no other

    for number, place in enumerate(kernel.scratch):
        before = writer.value(f"mul i64 %task, {word(writer, total + number)}")
        offset = writer.value(f"sub i64 {word(writer, place)}, {before}")
        address = writer.value(f"getelementptr i8, ptr %scratch, i64 {offset}")
        writer.emit(f"store ptr {address}, ptr {writer.value(f'getelementptr i64, ptr {copy}, i64 {place}')}")
    return copy

"""Greedy suppression of candidates, one overlap matrix for each task; shapes and strides are baked in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.lines import row_of
from trainer.engine.targets.cpu.kernels.loops import counted_loop, stepped, word
from trainer.engine.targets.ir.writer import Writer


@dataclass(frozen=True, slots=True)
class Suppress:
    """y [..., N]: candidates kept, given overlaps x [..., N, N]. Addresses: (x, y); strides are by axis of x and y."""

    shape: tuple[int, ...]
    input_strides: tuple[int, ...]
    output_strides: tuple[int, ...]

    @property
    def tasks(self) -> int:
        """Number of tasks: one for each matrix."""
        return 0 if 0 in self.shape else math.prod(self.shape[:-2])

    def render(self, name: str) -> str:
        """The module text, exporting `void name(ptr arguments, i64 task)`; a task processes candidates in order."""
        writer = Writer()
        source, target = (word(writer, place, "ptr") for place in range(2))
        count, outer = self.shape[-1], range(len(self.shape) - 2)
        matrix = row_of(writer, source, "i8", "%task", self.shape, outer, self.input_strides)
        kept = row_of(writer, target, "i8", "%task", self.shape, outer, self.output_strides)
        down, across = self.input_strides[-2:]
        by = self.output_strides[-1]
        with counted_loop(writer, 0, count, 1, "all") as loop:
            writer.emit(f"store i8 1, ptr {stepped(writer, 'i8', kept, loop.index, by)}")
        with counted_loop(writer, 0, count, 1, "candidate") as candidate:
            own = writer.value(f"load i8, ptr {stepped(writer, 'i8', kept, candidate.index, by)}")
            with writer.when(writer.value(f"icmp ne i8 {own}, 0"), "stays"):
                line = stepped(writer, "i8", matrix, candidate.index, down)
                with counted_loop(writer, writer.value(f"add i64 {candidate.index}, 1"), count, 1, "later") as other:
                    place = stepped(writer, "i8", kept, other.index, by)
                    overlaps = writer.value(f"load i8, ptr {stepped(writer, 'i8', line, other.index, across)}")
                    free = writer.value(f"xor i8 {overlaps}, 1")
                    before = writer.value(f"load i8, ptr {place}")
                    writer.emit(f"store i8 {writer.value(f'and i8 {before}, {free}')}, ptr {place}")
        return writer.module(name)

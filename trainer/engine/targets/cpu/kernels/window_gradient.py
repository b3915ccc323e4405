"""The gradient of max pooling: each pixel sums the gradients of the windows around it whose maximum it was.

Numerics class "exact": windows are summed in row-major order, from zero, as if each window's gradient were added at its
position one after the other. bfloat16 is summed in float32. Arguments are those of `kernels.resample`, where x is dy,
and the address of the positions (int32, with the layout of dy) before the runs; weights are not read.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph.dtypes import int32
from trainer.engine.graph.node import Shape
from trainer.engine.graph.primitives.contraction import Padding, Pair
from trainer.engine.graph.primitives.resampling import Band
from trainer.engine.targets.cpu.kernels.access import load_operand
from trainer.engine.targets.cpu.kernels.loops import broadcast, counted_loop, word
from trainer.engine.targets.cpu.kernels.resample import Resample, RunWriter
from trainer.engine.targets.ir.expression import LANES
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import vector


def covering(
    windows: Shape, window: Pair, strides: Pair, padding: Padding, dilation: Pair, spatial: Pair
) -> tuple[Band, Band]:
    """For each row and column of the image, the run of windows [N, C, P, Q] that cover it."""
    spans = [spacing * (size - 1) for size, spacing in zip(window, dilation, strict=True)]
    axes = zip(windows[2:], spatial, padding, spans, strides, strict=True)
    rows, columns = (
        (count, tuple(_run(place + low, count, span, step) for place in range(extent)))
        for count, extent, (low, _), span, step in axes
    )
    return rows, columns


def _run(place: int, count: int, span: int, step: int) -> tuple[int, tuple[float, ...]]:
    """The windows that begin at most `span` before `place` of the padded axis."""
    first, last = max(0, -(-(place - span) // step)), min(count - 1, place // step)
    return (first, (1.0,) * (last - first + 1)) if first <= last else (0, ())


class WindowGradient(Resample):
    """The gradient kernel, with the vectors of a resampling kernel."""

    __slots__ = ()

    def render(self, name: str) -> str:
        """The module of the kernel."""
        return _WindowGradient(self).render(name)


class _WindowGradient(RunWriter):
    head = RunWriter.head + 1

    def pixel(self, source: str, target: str, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Writes the gradient of one pixel of the image."""
        writer = self.writer
        image, row, column, down, across, width = self.at
        flat = writer.value(f"add i64 {writer.value(f'mul i64 {down}, {width}')}, {across}")
        here = broadcast(writer, "i32", writer.value(f"trunc i64 {flat} to i32"))
        offset = writer.value(f"mul i64 {image}, {self.steps[0]}")
        for count, step in ((row, self.steps[1]), (column, self.steps[2])):
            offset = writer.value(f"add i64 {offset}, {writer.value(f'mul i64 {count}, {step}')}")
        positions = writer.value(f"getelementptr i32, ptr {word(writer, self.head - 1, 'ptr')}, i64 {offset}")
        chosen = Operand(int32, "contiguous")
        for parts in self.parts():
            with counted_loop(writer, 0, rows[0], 1, "down", self.zeros) as outer:
                first = writer.value(f"mul i64 {outer.index}, {self.steps[1]}")
                initial = [(self.kind, value) for value in outer.carried]
                with counted_loop(writer, 0, columns[0], 1, "across", initial) as inner:
                    moved = writer.value(f"add i64 {first}, {writer.value(f'mul i64 {inner.index}, {self.steps[2]}')}")
                    values = writer.value(f"getelementptr {self.element}, ptr {source}, i64 {moved}")
                    winners = writer.value(f"getelementptr i32, ptr {positions}, i64 {moved}")
                    for old, part in zip(inner.carried, parts, strict=True):
                        winner = load_operand(writer, chosen, winners, part)
                        value = load_operand(writer, self.operand, values, part)
                        won = writer.value(f"icmp eq {vector('i32', LANES)} {winner}, {here}")
                        more = writer.value(f"fadd {self.kind} {old}, {value}")
                        lanes = f"{vector('i1', LANES)} {won}"
                        inner.next.append(writer.value(f"select {lanes}, {self.kind} {more}, {self.kind} {old}"))
                outer.next = inner.next
            self.store(target, parts, outer.next)

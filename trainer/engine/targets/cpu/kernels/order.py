"""Sorting rows and greedy suppression: one row or matrix after the other, shapes and strides baked in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.loops import bounds, counted_loop, decode, stepped, word
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer

_TASK_ELEMENTS = 4096

_FLOAT_FORMATS = {"float64": (64, 52), "float32": (32, 23), "bfloat16": (16, 7), "float16": (16, 10)}
"""Bits in all and of the fraction."""


@dataclass(frozen=True, slots=True)
class Argsort:
    """y = the stable order of x along an axis, int64. Addresses: (x, y); strides are in elements, by axis."""

    dtype: DType
    shape: tuple[int, ...]
    axis: int
    descending: bool
    input_strides: tuple[int, ...]
    output_strides: tuple[int, ...]

    @property
    def row_axes(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis != self.axis)

    @property
    def rows(self) -> int:
        return math.prod(self.shape[axis] for axis in self.row_axes)

    @property
    def rows_per_task(self) -> int:
        return max(1, _TASK_ELEMENTS // max(1, self.shape[self.axis]))

    @property
    def tasks(self) -> int:
        return 0 if 0 in self.shape else -(-self.rows // self.rows_per_task)

    def render(self, name: str) -> str:
        """The module text, exporting `void name(ptr arguments, i64 task)`.

        Heapsort of the indices by (key, index): it needs no memory beside the result, its time does not depend on the
        numbers, and with the index as part of the key the order is the stable one.
        """
        writer = Writer()
        source, target = (word(writer, place, "ptr") for place in range(2))
        axes, count, by = self.row_axes, self.shape[self.axis], self.output_strides[self.axis]
        sift = _sift(writer, self)
        first, last = bounds(writer, "%task", self.rows_per_task, self.rows)
        with counted_loop(writer, first, last, 1, "row") as row:
            keys = _row(writer, source, MEMORY[self.dtype.name], row.index, self.shape, axes, self.input_strides)
            order = _row(writer, target, "i64", row.index, self.shape, axes, self.output_strides)
            with counted_loop(writer, 0, count, 1, "number") as loop:
                writer.emit(f"store i64 {loop.index}, ptr {stepped(writer, 'i64', order, loop.index, by)}")
            with counted_loop(writer, 0, count // 2, 1, "heap") as loop:
                root = writer.value(f"sub i64 {count // 2 - 1}, {loop.index}")
                writer.run(sift, (keys, order), (root, count))
            with counted_loop(writer, 0, max(0, count - 1), 1, "sort") as loop:
                end = writer.value(f"sub i64 {count - 1}, {loop.index}")
                top = writer.value(f"load i64, ptr {order}")
                bottom = writer.value(f"load i64, ptr {stepped(writer, 'i64', order, end, by)}")
                writer.emit(f"store i64 {bottom}, ptr {order}")
                writer.emit(f"store i64 {top}, ptr {stepped(writer, 'i64', order, end, by)}")
                writer.run(sift, (keys, order), (0, end))
        return writer.module(name)


@dataclass(frozen=True, slots=True)
class Suppress:
    """y [..., N] = which candidates stay by overlaps x [..., N, N]. Addresses: (x, y); strides are by axis of x, y."""

    shape: tuple[int, ...]
    input_strides: tuple[int, ...]
    output_strides: tuple[int, ...]

    @property
    def tasks(self) -> int:
        """One a matrix."""
        return 0 if 0 in self.shape else math.prod(self.shape[:-2])

    def render(self, name: str) -> str:
        """The module text, exporting `void name(ptr arguments, i64 task)`; a task goes candidate by candidate."""
        writer = Writer()
        source, target = (word(writer, place, "ptr") for place in range(2))
        count, outer = self.shape[-1], range(len(self.shape) - 2)
        matrix = _row(writer, source, "i8", "%task", self.shape, outer, self.input_strides)
        kept = _row(writer, target, "i8", "%task", self.shape, outer, self.output_strides)
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


def _sift(writer: Writer, kernel: Argsort) -> str:
    """The function that lets the index at `root` of a heap of `end` indices sink to its place; the last is on top."""
    by_key, by_index = kernel.input_strides[kernel.axis], kernel.output_strides[kernel.axis]
    better = "slt" if kernel.descending else "sgt"

    def build(inner: Writer) -> None:
        def key(index: str) -> str:
            return _key(inner, kernel.dtype, stepped(inner, MEMORY[kernel.dtype.name], "%keys", index, by_key))

        def at(position: str) -> str:
            return stepped(inner, "i64", "%order", position, by_index)

        def comes_later(one: tuple[str, str], other: tuple[str, str]) -> str:
            differs = inner.value(f"icmp {better} i64 {one[0]}, {other[0]}")
            equal = inner.value(f"icmp eq i64 {one[0]}, {other[0]}")
            behind = inner.value(f"icmp sgt i64 {one[1]}, {other[1]}")
            return inner.value(f"or i1 {differs}, {inner.value(f'and i1 {equal}, {behind}')}")

        sinking = inner.value(f"load i64, ptr {at('%root')}")
        own = key(sinking)
        inner.branch("head")
        inner.label("head")
        place = "%place"
        inner.emit(f"{place} = phi i64 [ %root, %entry ], [ %taken, %sink ]")
        left = inner.value(f"add i64 {inner.value(f'shl i64 {place}, 1')}, 1")
        inner.branch_if(inner.value(f"icmp slt i64 {left}, %end"), "children", "done")
        inner.label("children")
        right = inner.value(f"add i64 {left}, 1")
        has_right = inner.value(f"icmp slt i64 {right}, %end")
        other = inner.value(f"select i1 {has_right}, i64 {right}, i64 {left}")
        pair = []
        for position in (left, other):
            index = inner.value(f"load i64, ptr {at(position)}")
            pair.append((key(index), index))
        takes_other = comes_later(pair[1], pair[0])
        inner.emit(f"%taken = select i1 {takes_other}, i64 {other}, i64 {left}")
        chosen_key, chosen = (
            inner.value(f"select i1 {takes_other}, i64 {two}, i64 {one}") for one, two in zip(*pair, strict=True)
        )
        inner.branch_if(comes_later((chosen_key, chosen), (own, sinking)), "sink", "done")
        inner.label("sink")
        inner.emit(f"store i64 {chosen}, ptr {at(place)}")
        inner.branch("head")
        inner.label("done")
        inner.emit(f"store i64 {sinking}, ptr {at(place)}")

    parameters = [("ptr", "%keys"), ("ptr", "%order"), ("i64", "%root"), ("i64", "%end")]
    return writer.helper("sift", "void", parameters, build)


def _key(writer: Writer, dtype: DType, place: str) -> str:
    """The element at `place` as an i64 of the same order, from its bits alone: no flushing of subnormal numbers."""
    kind = f"i{8 * dtype.itemsize}"
    bits = writer.value(f"load {kind}, ptr {place}, align {dtype.itemsize}")
    if not dtype.is_float:
        if kind == "i64":
            return bits
        return writer.value(f"{'zext' if dtype.kind in ('uint', 'bool') else 'sext'} {kind} {bits} to i64")
    width, fraction = _FLOAT_FORMATS[dtype.name]
    greatest = (1 << width - 1) - 1
    infinity = greatest >> fraction << fraction
    size = writer.value(f"and {kind} {bits}, {greatest}")
    turned = writer.value(f"sub {kind} 0, {size}")  # -0 is 0
    signed = writer.value(f"select i1 {writer.value(f'icmp slt {kind} {bits}, 0')}, {kind} {turned}, {kind} {size}")
    is_nan = writer.value(f"icmp ugt {kind} {size}, {infinity}")
    ranked = writer.value(f"select i1 {is_nan}, {kind} {greatest}, {kind} {signed}")
    return ranked if kind == "i64" else writer.value(f"sext {kind} {ranked} to i64")


def _row(
    writer: Writer, base: str, element: str, number: Integer, shape: Sequence[int], axes: Sequence[int],
    strides: Sequence[int],
) -> str:  # fmt: skip
    """Where the row-major `number`-th point of `axes` begins."""
    if not axes:
        return base
    places = decode(writer, number, [shape[axis] for axis in axes])
    offset = "0"
    for axis, place in zip(axes, places, strict=True):
        offset = writer.value(f"add i64 {offset}, {writer.value(f'mul i64 {place}, {strides[axis]}')}")
    return writer.value(f"getelementptr {element}, ptr {base}, i64 {offset}")

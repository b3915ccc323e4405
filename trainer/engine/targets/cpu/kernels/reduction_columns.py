"""Reductions vectorized along a kept dimension: the 16 lanes of the summation order are rows of a cached scratch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from trainer.engine.targets.cpu.kernels import loops
from trainer.engine.targets.cpu.kernels.access import prefetch, store_operand
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.kernels.reduction_block import BlockReduction
from trainer.engine.targets.ir.combine import Moments
from trainer.engine.targets.ir.expression import LANES
from trainer.engine.targets.ir.writer import Integer, Typed, vector

COLUMN_PART = 64
"""Kept elements in one part of a "column" reduction."""
STRIP_PARTS = 16
"""Neighboring parts of one task that are read together: short pieces of distant rows would stall on page misses."""
PREFETCH_STEPS = 16
_BYTES = vector("i8", LANES)


class ColumnReduction(BlockReduction):
    """A reduction whose kept parts are COLUMN_PART neighbors along the innermost dimension."""

    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__(kernel, 1)

    def write(self, first: str) -> None:
        writer, arguments = self.writer, self.arguments
        kept = arguments.sizes[-1]
        parts = writer.value(f"udiv i64 {writer.value(f'add i64 {kept}, {COLUMN_PART - 1}')}, {COLUMN_PART}")
        total = loops.product(writer, [parts, *arguments.sizes[: self.reduced]])
        self.scratch = [
            [
                writer.value(f"alloca [{LANES * COLUMN_PART * STRIP_PARTS} x {_scratch_element(kind)}], align 64")
                for kind in a.types
            ]
            for a in self.accumulators
        ]
        self.pivots = [
            writer.value(f"alloca [{COLUMN_PART * STRIP_PARTS} x {_scratch_element(a.types[0])}], align 64")
            if isinstance(a, Moments)
            else ""
            for a in self.accumulators
        ]

        last = self.last(first, total)
        with loops.counted_loop(writer, first, last, 1, "strip") as loop:
            number = loop.index
            outer = loops.decode(writer, writer.value(f"udiv i64 {number}, {parts}"), arguments.sizes[: self.reduced])
            inner = writer.value(f"urem i64 {number}, {parts}")
            rest = writer.value(f"sub i64 {parts}, {inner}")
            count = loops.minimum(writer, rest, writer.value(f"sub i64 {last}, {number}"))
            loop.step = count = loops.minimum(writer, count, STRIP_PARTS)
            start = writer.value(f"mul i64 {inner}, {COLUMN_PART}")
            length = writer.value(f"mul i64 {count}, {COLUMN_PART}")
            stop = loops.minimum(writer, kept, writer.value(f"add i64 {start}, {length}"))
            along = [self.start] * len(self.kernel.inputs) + [self.block] * len(self.kernel.outputs)
            operands = zip(arguments.operands, arguments.bases, arguments.strides, along, strict=True)
            places = [
                loops.place_at(writer, operand, base, list(zip([*outer, reduced], strides, strict=False)))
                for operand, base, strides, reduced in operands
            ]
            self._column(places, start, stop)

    def _column(self, places: list[str], start: str, stop: str) -> None:
        writer = self.writer
        width = writer.value(f"sub i64 {stop}, {start}")
        self.pitch = writer.value(f"and i64 {writer.value(f'add i64 {width}, {LANES - 1}')}, {-LANES}")

        self._clear(width)
        if any(self.pivots):
            self._keep_pivots(places, start, stop)
            self._clear(width)
        with loops.counted_loop(writer, self.start, self.stop, 1, "reduce", self._cursors(places)) as loop:
            here = loop.carried
            fixed = self.fixed(here)
            positions = self.positions(loop.index, False)
            lane = writer.value(f"and i64 {loop.index}, {LANES - 1}")
            for part in loops.vectors(writer, start, stop, "kept"):
                self._prefetch(here, part.position)
                offset = writer.value(f"sub i64 {part.position}, {start}")
                values = self.distances(self.values(here, fixed, part), self._kept_pivots(offset))
                partials = zip(self.accumulators, self._kept(lane, offset), values, strict=True)
                self._keep(lane, offset, [a.take(writer, old, value, positions, None) for a, old, value in partials])
            loop.next = self._next_row(here)
        self._store_column(places, start, stop)

    def _cursors(self, places: list[str]) -> list[Typed]:
        """The inputs' places as loop-carried values."""
        return [(loops.cursor_type(operand), place) for operand, place in zip(self.kernel.inputs, places, strict=False)]

    def _next_row(self, places: list[str]) -> list[str]:
        """The inputs' places one step further along the reduced dimension."""
        return [
            loops.advance(self.writer, operand, place, strides[self.reduced])
            for operand, place, strides in zip(self.kernel.inputs, places, self.arguments.strides, strict=False)
        ]

    def _clear(self, width: str) -> None:
        """Fills the scratch with identities, the partial results of no elements."""
        writer = self.writer
        with (
            loops.counted_loop(writer, 0, LANES, 1, "lane") as lane,
            loops.counted_loop(writer, 0, width, LANES, "clear") as offset,
        ):
            self._keep(lane.index, offset.index, self._identities())

    def _keep_pivots(self, places: list[str], start: str, stop: str) -> None:
        """Stores the means of the block's middle rows, with one row for each lane, in the scratch of pivots."""
        writer = self.writer
        skipped, count = self.pivot_elements()
        firsts = [
            loops.place_at(writer, operand, place, [(skipped, strides[self.reduced])])
            for operand, place, strides in zip(self.kernel.inputs, places, self.arguments.strides, strict=False)
        ]
        with loops.counted_loop(writer, 0, count, 1, "pivot", self._cursors(firsts)) as loop:
            here = loop.carried
            fixed = self.fixed(here)
            for part in loops.vectors(writer, start, stop, "first", masked=True):
                offset = writer.value(f"sub i64 {part.position}, {start}")
                found = zip(self.accumulators, self._identities(), self.values(here, fixed, part), strict=True)
                first = [[value, *old[1:]] if isinstance(a, Moments) else old for a, old, value in found]
                self._keep(loop.index, offset, first)
            loop.next = self._next_row(here)
        for part in loops.vectors(writer, start, stop, "fold", masked=True):
            offset = writer.value(f"sub i64 {part.position}, {start}")
            lanes = [self._kept(lane, offset) for lane in range(LANES)]
            for accumulator, memory, partials in zip(
                self.accumulators, self.pivots, zip(*lanes, strict=True), strict=True
            ):
                if memory:
                    kind, total = accumulator.types[0], accumulator.fold_list(writer, [*partials])[0]
                    mean = self.divided(accumulator, total, count)
                    writer.emit(f"store {kind} {mean}, ptr {self._element_place(memory, kind, offset)}, align 16")

    def _kept_pivots(self, offset: str) -> list[str]:
        """The vectors of pivots at `offset` of the scratch, or "" for accumulators without pivots."""
        return [
            self.writer.value(f"load {a.types[0]}, ptr {self._element_place(memory, a.types[0], offset)}, align 16")
            if memory
            else ""
            for a, memory in zip(self.accumulators, self.pivots, strict=True)
        ]

    def _prefetch(self, places: list[str], kept: Integer) -> None:
        """Prefetches the rows of some steps later: hardware prefetchers don't follow strides beyond a page."""
        writer = self.writer
        for number, operand in enumerate(self.kernel.inputs):
            if operand.inner == "contiguous" and not operand.index:
                ahead = writer.value(f"mul i64 {self.arguments.strides[number][self.reduced]}, {PREFETCH_STEPS}")
                prefetch(
                    writer, loops.advance(writer, operand, places[number], writer.value(f"add i64 {ahead}, {kept}"))
                )

    def _store_column(self, places: list[str], start: str, stop: str) -> None:
        writer = self.writer
        for part in loops.vectors(writer, start, stop, "result", masked=True):
            offset = writer.value(f"sub i64 {part.position}, {start}")
            lanes = [self._kept(lane, offset) for lane in range(LANES)]
            found = zip(self.accumulators, zip(*lanes, strict=True), strict=True)
            folded = [accumulator.fold_list(writer, [*partials]) for accumulator, partials in found]
            pivots = self._kept_pivots(offset)
            for operand, place, strides, value in self.finals(places, folded, pivots):
                store_operand(writer, operand, place, part, value, strides[-1])

    def _identities(self) -> list[list[str]]:
        return [accumulator.identity() for accumulator in self.accumulators]

    def _places(self, lane: Integer, offset: Integer) -> Iterator[tuple[str, str]]:
        """Yields the type of each vector of the partial results and its place at (lane, offset) of the scratch."""
        for accumulator, memories in zip(self.accumulators, self.scratch, strict=True):
            for kind, memory in zip(accumulator.types, memories, strict=True):
                row = self.writer.value(f"mul i64 {lane}, {self.pitch}")
                index = self.writer.value(f"add i64 {row}, {offset}")
                yield kind, self._element_place(memory, kind, index)

    def _element_place(self, memory: str, kind: str, index: str) -> str:
        return self.writer.value(f"getelementptr {_scratch_element(kind)}, ptr {memory}, i64 {index}")

    def _keep(self, lane: Integer, offset: Integer, partials: list[list[str]]) -> None:
        """Stores a vector of partial results at (lane, offset) of the scratch."""
        for (kind, place), value in zip(self._places(lane, offset), chain.from_iterable(partials), strict=True):
            if _is_boolean(kind):
                value = self.writer.value(f"zext {kind} {value} to {_BYTES}")
            self.writer.emit(f"store {_BYTES if _is_boolean(kind) else kind} {value}, ptr {place}, align 16")

    def _kept(self, lane: Integer, offset: Integer) -> list[list[str]]:
        """The vectors of partial results at (lane, offset) of the scratch."""
        parts = []
        for kind, place in self._places(lane, offset):
            raw = self.writer.value(f"load {_BYTES if _is_boolean(kind) else kind}, ptr {place}, align 16")
            parts.append(self.writer.value(f"trunc {_BYTES} {raw} to {kind}") if _is_boolean(kind) else raw)
        return self.grouped(parts)


def _is_boolean(kind: str) -> bool:
    return kind == vector("i1", LANES)


def _scratch_element(kind: str) -> str:
    element = kind[1:-1].split(" x ")[1]
    return "i8" if element == "i1" else element

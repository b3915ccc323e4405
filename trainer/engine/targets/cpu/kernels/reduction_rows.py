"""Reductions vectorized along the reduced dimension: the 16 lanes of the summation order are those of one vector."""

from __future__ import annotations

from trainer.engine.targets.cpu.kernels import loops
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.kernels.reduction_block import BlockReduction
from trainer.engine.targets.ir.combine import Moments
from trainer.engine.targets.ir.expression import LANES, MEMORY, memory_type, narrow
from trainer.engine.targets.ir.writer import vector


class RowReduction(BlockReduction):
    """A reduction in which each kept part is one row."""

    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__(kernel, 0)

    def write(self, first: str) -> None:
        if self.reduced == 0:
            self._row([*self.arguments.bases])
            return
        total = loops.product(self.writer, self.arguments.sizes[: self.reduced])
        last = self.last(first, total)
        with loops.each_point(self.writer, self.arguments, self.reduced, first, last) as places:
            self._row(places)

    def _row(self, places: list[str]) -> None:
        writer = self.writer
        fixed = self.fixed(places)
        middle = loops.whole_vectors(writer, self.start, self.stop)
        pivots = self._row_pivots(places, fixed)
        partials = self._whole(places, fixed, middle, pivots)
        partials = self._tail(places, fixed, middle, partials, pivots)
        folded = [a.fold_lanes(writer, partial) for a, partial in zip(self.accumulators, partials, strict=True)]
        for operand, place, strides, value in self.finals(places, folded, pivots):
            raw = narrow(writer, value, operand.dtype)
            scalar = writer.value(f"extractelement {memory_type(operand.dtype)} {raw}, i64 0")
            address = loops.place_at(writer, operand, place, [(self.block, strides[self.reduced])])
            writer.emit(f"store {MEMORY[operand.dtype.name]} {scalar}, ptr {address}, align {operand.dtype.itemsize}")

    def _row_pivots(self, places: list[str], fixed: dict[int, str]) -> list[str]:
        """The mean of the block's middle LANES elements on every lane, for accumulators that take distances from it."""
        if not any(isinstance(accumulator, Moments) for accumulator in self.accumulators):
            return [""] * len(self.accumulators)
        skipped, count = self.pivot_elements()
        mask = loops.tail_mask(self.writer, count)
        middle = self.values(places, fixed, loops.Part(self.writer.value(f"add i64 {self.start}, {skipped}"), mask))
        pivots = [""] * len(middle)
        for number, (accumulator, value) in enumerate(zip(self.accumulators, middle, strict=True)):
            if isinstance(accumulator, Moments):
                kind, bits = accumulator.types[0], vector("i1", LANES)
                value = self.writer.value(f"select {bits} {mask}, {kind} {value}, {kind} zeroinitializer")
                total = accumulator.fold_lanes(self.writer, [value, "zeroinitializer"])
                mean = self.divided(accumulator, total[0], count)
                lanes = f"<{LANES} x i32> zeroinitializer"
                pivots[number] = self.writer.value(f"shufflevector {kind} {mean}, {kind} poison, {lanes}")
        return pivots

    def _whole(self, places: list[str], fixed: dict[int, str], middle: str, pivots: list[str]) -> list[list[str]]:
        """Reduces the whole vectors of the block, with accumulators in registers."""
        initial = [pair for a in self.accumulators for pair in zip(a.types, a.identity(), strict=True)]
        with loops.counted_loop(self.writer, self.start, middle, LANES, "reduce", initial) as loop:
            updated = self._taken(places, fixed, loops.Part(loop.index), self.grouped(loop.carried), pivots)
            loop.next = [part for partial in updated for part in partial]
        return self.grouped(loop.next)

    def _taken(
        self, places: list[str], fixed: dict[int, str], part: loops.Part, partials: list[list[str]], pivots: list[str]
    ) -> list[list[str]]:
        """`partials`, updated with the elements of one vector."""
        values = self.distances(self.values(places, fixed, part), pivots)
        positions = self.positions(part.position, True)
        return [
            a.take(self.writer, partial, value, positions, part.mask)
            for a, partial, value in zip(self.accumulators, partials, values, strict=True)
        ]

    def _tail(
        self, places: list[str], fixed: dict[int, str], middle: str, partials: list[list[str]], pivots: list[str]
    ) -> list[list[str]]:
        """Reduces the last, partly filled vector; skipped if there is none."""
        writer = self.writer
        left = writer.value(f"sub i64 {self.stop}, {middle}")
        part = loops.Part(middle, loops.tail_mask(writer, left))
        before, _, latch, after = loops.guarded(writer, "last", f"icmp ne i64 {left}, 0", "then")
        updated = self._taken(places, fixed, part, partials, pivots)
        writer.branch(latch)
        writer.label(latch)
        writer.branch(after)
        writer.label(after)
        return [
            [
                writer.value(f"phi {kind} [ {a}, %{before} ], [ {b}, %{latch} ]")
                for kind, a, b in zip(accumulator.types, old, new, strict=True)
            ]
            for accumulator, old, new in zip(self.accumulators, partials, updated, strict=True)
        ]

"""Reductions whose vectors run along the reduced dimension: the 16 lanes of the order are those of one vector."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.program.spec import LoopKernel
from trainer.engine.targets.cpu.kernels.combine import Moments
from trainer.engine.targets.cpu.kernels.expression import LANES, cast, memory_type, narrow
from trainer.engine.targets.cpu.kernels.loops import (
    advance,
    carried_loop,
    for_each_row,
    for_each_run,
    tail_mask,
    whole_vectors,
)
from trainer.engine.targets.cpu.kernels.reduction_block import BlockReduction
from trainer.engine.targets.cpu.kernels.writer import vector


class RowReduction(BlockReduction):
    """Each kept part is a row of its own."""

    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__(kernel, 0)

    def write(self, first: str) -> None:
        writer, arguments = self.writer, self.arguments
        if self.reduced == 0:
            self._row(arguments.bases)
            return
        total = arguments.sizes[0]
        for size in arguments.sizes[1 : self.reduced]:
            total = writer.value(f"mul i64 {total}, {size}")
        for_each_run(
            writer, arguments, self.elements, self.reduced, first, self.last(first, total),
            lambda run: for_each_row(writer, arguments, self.elements, run, run.count, run.places, self._row),
        )  # fmt: skip

    def _row(self, places: list[str]) -> None:
        writer = self.writer
        fixed = self.fixed(places)
        middle = whole_vectors(writer, self.start, self.stop)
        pivots = self._row_pivots(places, fixed)
        partials = self._carried_loop(places, fixed, middle, pivots)
        left = writer.value(f"sub i64 {self.stop}, {middle}")
        mask = tail_mask(writer, left)
        partials = self._tail(places, fixed, middle, left, mask, partials, pivots)
        folded = [a.fold_lanes(writer, partial) for a, partial in zip(self.accumulators, partials, strict=True)]
        for number, (place, _) in enumerate(self.results):
            output = len(self.kernel.inputs) + number
            _, operand = self.kernel.outputs[number]
            value = self.final(number, folded, pivots)
            raw = narrow(writer, cast(writer, value, self.accumulators[place].result, operand.dtype), operand.dtype)
            kind = memory_type(operand.dtype)
            element = self.elements[output]
            scalar = writer.value(f"extractelement {kind} {raw}, i64 0")
            moved = writer.value(f"mul i64 {self.block}, {self.arguments.strides[output][self.reduced]}")
            address = advance(writer, operand, element, places[output], moved)
            writer.emit(f"store {element} {scalar}, ptr {address}, align {operand.dtype.itemsize}")

    def _row_pivots(self, places: list[str], fixed: dict[int, str]) -> list[str]:
        """The mean of the block's middle LANES elements on every lane, for accumulators that take distances from it."""
        if not any(isinstance(accumulator, Moments) for accumulator in self.accumulators):
            return [""] * len(self.accumulators)
        skipped, count = self.pivot_elements()
        mask = tail_mask(self.writer, count)
        middle = self.values(places, fixed, self.writer.value(f"add i64 {self.start}, {skipped}"), mask)
        pivots = []
        for accumulator, value in zip(self.accumulators, middle, strict=True):
            if isinstance(accumulator, Moments):
                kind = accumulator.types[0]
                value = self.writer.value(
                    f"select {vector('i1', LANES)} {mask}, {kind} {value}, {kind} zeroinitializer"
                )
                total = accumulator.fold_lanes(self.writer, [value, "zeroinitializer"])
                mean = self.divided(accumulator, total[0], count)
                lanes = f"<{LANES} x i32> zeroinitializer"
                pivots.append(self.writer.value(f"shufflevector {kind} {mean}, {kind} poison, {lanes}"))
            else:
                pivots.append("")
        return pivots

    def _carried_loop(
        self, places: list[str], fixed: dict[int, str], middle: str, pivots: list[str]
    ) -> list[list[str]]:
        """The whole vectors of the block, accumulators in registers."""
        initial = [
            (kind, value)
            for accumulator in self.accumulators
            for kind, value in zip(accumulator.types, accumulator.identity(), strict=True)
        ]

        def body(position: str, carried: list[str]) -> list[str]:
            values = self.distances(self.values(places, fixed, position, None), pivots)
            positions = self.positions(position, True)
            partials = zip(self.accumulators, self._grouped(carried), values, strict=True)
            return [part for a, old, value in partials for part in a.take(self.writer, old, value, positions, None)]

        return self._grouped(carried_loop(self.writer, self.start, middle, LANES, initial, body, "reduce"))

    def _grouped(self, parts: Sequence[str]) -> list[list[str]]:
        """A flat list of the accumulators' vectors as one list for each."""
        rest = iter(parts)
        return [[next(rest) for _ in accumulator.types] for accumulator in self.accumulators]

    def _tail(
        self,
        places: list[str],
        fixed: dict[int, str],
        middle: str,
        left: str,
        mask: str,
        partials: list[list[str]],
        pivots: list[str],
    ) -> list[list[str]]:
        """The last, partly filled vector, skipped where there is none."""
        writer = self.writer
        before, then, latch, after = (writer.fresh(f"last.{part}.") for part in ("before", "then", "latch", "after"))
        writer.branch(before)
        writer.label(before)
        writer.branch_if(writer.value(f"icmp ne i64 {left}, 0"), then, after)
        writer.label(then)
        values = self.distances(self.values(places, fixed, middle, mask), pivots)
        positions = self.positions(middle, True)
        updated = [
            a.take(writer, partial, value, positions, mask)
            for a, partial, value in zip(self.accumulators, partials, values, strict=True)
        ]
        writer.branch(latch)
        writer.label(latch)
        writer.branch(after)
        writer.label(after)
        return self._merge(before, partials, latch, updated)

    def _merge(
        self, first: str, first_values: list[list[str]], second: str, second_values: list[list[str]]
    ) -> list[list[str]]:
        return [
            [
                self.writer.value(f"phi {kind} [ {a}, %{first} ], [ {b}, %{second} ]")
                for kind, a, b in zip(accumulator.types, first_parts, second_parts, strict=True)
            ]
            for accumulator, first_parts, second_parts in zip(
                self.accumulators, first_values, second_values, strict=True
            )
        ]

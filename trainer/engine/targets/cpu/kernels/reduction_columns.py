"""Reductions whose vectors run along what is kept: the 16 lanes of the order are rows of a scratch in the cache."""

from __future__ import annotations

from trainer.engine.program.spec import LoopKernel
from trainer.engine.targets.cpu.kernels.access import store_vector
from trainer.engine.targets.cpu.kernels.combine import Moments
from trainer.engine.targets.cpu.kernels.expression import LANES, cast
from trainer.engine.targets.cpu.kernels.loops import (
    advance,
    carried_loop,
    counted_loop,
    cursor_type,
    decode,
    masked_loop,
    minimum,
    place_at,
    vector_loop,
)
from trainer.engine.targets.cpu.kernels.reduction_block import BlockReduction
from trainer.engine.targets.cpu.kernels.writer import vector

COLUMN_PART = 64
"""Kept elements in one part of a "column" reduction."""
STRIP_PARTS = 16
"""How many neighbouring parts of one task are read together: short pieces of far rows would starve on page misses."""
PREFETCH_STEPS = 16


class ColumnReduction(BlockReduction):
    """Kept parts are COLUMN_PART neighbours of the innermost dimension."""

    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__(kernel, 1)

    def write(self, first: str) -> None:
        writer, arguments = self.writer, self.arguments
        kept = arguments.sizes[-1]
        parts = writer.value(f"udiv i64 {writer.value(f'add i64 {kept}, {COLUMN_PART - 1}')}, {COLUMN_PART}")
        total = parts
        for size in arguments.sizes[: self.reduced]:
            total = writer.value(f"mul i64 {total}, {size}")
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

        def strip(number: str) -> str:
            outer = decode(writer, writer.value(f"udiv i64 {number}, {parts}"), arguments.sizes[: self.reduced])
            inner = writer.value(f"urem i64 {number}, {parts}")
            count = minimum(
                writer, writer.value(f"sub i64 {parts}, {inner}"), writer.value(f"sub i64 {last}, {number}")
            )
            count = minimum(writer, count, str(STRIP_PARTS))
            start = writer.value(f"mul i64 {inner}, {COLUMN_PART}")
            length = writer.value(f"mul i64 {count}, {COLUMN_PART}")
            stop = minimum(writer, kept, writer.value(f"add i64 {start}, {length}"))
            inputs = len(self.kernel.inputs)
            places = [
                place_at(
                    writer, operand, element, base,
                    list(zip([*outer, self.start if n < inputs else self.block], strides, strict=False)),
                )
                for n, (operand, element, base, strides) in enumerate(
                    zip(arguments.operands, self.elements, arguments.bases, arguments.strides, strict=True)
                )
            ]  # fmt: skip
            self._column(places, start, stop)
            return count

        counted_loop(writer, first, last, 1, strip, "strip")

    def _column(self, places: list[str], start: str, stop: str) -> None:
        writer = self.writer
        width = writer.value(f"sub i64 {stop}, {start}")
        self.pitch = writer.value(f"and i64 {writer.value(f'add i64 {width}, {LANES - 1}')}, {-LANES}")

        self._clear(width)
        inputs = len(self.kernel.inputs)
        operands = self.arguments.operands[:inputs]
        if any(self.pivots):
            self._keep_pivots(places, start, stop)
            self._clear(width)

        def step(position: str, here: list[str]) -> list[str]:
            fixed = self.fixed(here)
            positions = self.positions(position, False)
            lane = writer.value(f"and i64 {position}, {LANES - 1}")

            def body(kept: str, mask: str | None) -> None:
                self._prefetch(here, kept)
                offset = writer.value(f"sub i64 {kept}, {start}")
                values = self.distances(self.values(here, fixed, kept, mask), self._kept_pivots(offset))
                partials = zip(self.accumulators, self._kept(lane, offset), values, strict=True)
                self._keep(lane, offset, [a.take(writer, old, value, positions, None) for a, old, value in partials])

            vector_loop(writer, start, stop, body, "kept")
            return self._next_row(here)

        initial = [(cursor_type(operand), place) for operand, place in zip(operands, places, strict=False)]
        carried_loop(writer, self.start, self.stop, 1, initial, step, "reduce")
        self._store_column(places, start, stop)

    def _next_row(self, places: list[str]) -> list[str]:
        """The inputs' places one step further along the reduced dimension."""
        arguments = self.arguments
        return [
            advance(
                self.writer, arguments.operands[number], self.elements[number], place,
                arguments.strides[number][self.reduced],
            )
            for number, place in enumerate(places)
        ]  # fmt: skip

    def _clear(self, width: str) -> None:
        """Partial results of no elements everywhere in the scratch."""

        def clear(lane: str) -> None:
            counted_loop(
                self.writer, "0", width, LANES, lambda offset: self._keep(lane, offset, self._identities()), "clear"
            )

        counted_loop(self.writer, "0", str(LANES), 1, clear, "lane")

    def _keep_pivots(self, places: list[str], start: str, stop: str) -> None:
        """Put the means of the block's middle rows, one for each lane, into the scratch of pivots."""
        writer = self.writer
        skipped, count = self.pivot_elements()
        operands = self.arguments.operands[: len(self.kernel.inputs)]

        def row(lane: str, here: list[str]) -> list[str]:
            fixed = self.fixed(here)

            def body(kept: str, mask: str | None) -> None:
                offset = writer.value(f"sub i64 {kept}, {start}")
                found = zip(self.accumulators, self._identities(), self.values(here, fixed, kept, mask), strict=True)
                first = [[value, *old[1:]] if isinstance(a, Moments) else old for a, old, value in found]
                self._keep(lane, offset, first)

            masked_loop(writer, start, stop, body, "first")
            return self._next_row(here)

        firsts = [
            place_at(
                writer, operand, self.elements[number], places[number],
                [(skipped, self.arguments.strides[number][self.reduced])],
            )
            for number, operand in enumerate(operands)
        ]  # fmt: skip
        initial = [(cursor_type(operand), place) for operand, place in zip(operands, firsts, strict=True)]
        carried_loop(writer, "0", count, 1, initial, row, "pivot")

        def fold(kept: str, mask: str | None) -> None:
            offset = writer.value(f"sub i64 {kept}, {start}")
            lanes = [self._kept(str(lane), offset) for lane in range(LANES)]
            for number, (accumulator, memory) in enumerate(zip(self.accumulators, self.pivots, strict=True)):
                if memory:
                    kind = accumulator.types[0]
                    total = accumulator.fold_list(writer, [lane[number] for lane in lanes])[0]
                    mean = self.divided(accumulator, total, count)
                    writer.emit(f"store {kind} {mean}, ptr {self._pivot_place(memory, kind, offset)}, align 16")

        masked_loop(writer, start, stop, fold, "fold")

    def _kept_pivots(self, offset: str) -> list[str]:
        """The vectors of pivots at `offset` of the scratch, "" where there is none."""
        return [
            self.writer.value(f"load {a.types[0]}, ptr {self._pivot_place(memory, a.types[0], offset)}, align 16")
            if memory
            else ""
            for a, memory in zip(self.accumulators, self.pivots, strict=True)
        ]

    def _pivot_place(self, memory: str, kind: str, offset: str) -> str:
        return self.writer.value(f"getelementptr {_scratch_element(kind)}, ptr {memory}, i64 {offset}")

    def _prefetch(self, places: list[str], kept: str) -> None:
        """Ask for what will be read some steps later: no hardware prefetcher follows strides beyond a page."""
        for number, operand in enumerate(self.kernel.inputs):
            if operand.inner == "contiguous" and not operand.index:
                ahead = self.writer.value(f"mul i64 {self.arguments.strides[number][self.reduced]}, {PREFETCH_STEPS}")
                element = self.elements[number]
                start = advance(
                    self.writer, operand, element, places[number], self.writer.value(f"add i64 {ahead}, {kept}")
                )
                arguments = (("ptr", start), ("i32", "0"), ("i32", "3"), ("i32", "1"))
                self.writer.intrinsic("prefetch.p0", "void", *arguments)

    def _store_column(self, places: list[str], start: str, stop: str) -> None:
        writer = self.writer

        def body(kept: str, mask: str | None) -> None:
            offset = writer.value(f"sub i64 {kept}, {start}")
            lanes = [self._kept(str(lane), offset) for lane in range(LANES)]
            folded = [
                accumulator.fold_list(writer, [lane[number] for lane in lanes])
                for number, accumulator in enumerate(self.accumulators)
            ]
            pivots = self._kept_pivots(offset)
            for number, (place, _) in enumerate(self.results):
                output = len(self.kernel.inputs) + number
                _, operand = self.kernel.outputs[number]
                result = self.final(number, folded, pivots)
                value = cast(writer, result, self.accumulators[place].result, operand.dtype)
                stride = self.arguments.strides[output][-1]
                store_vector(writer, operand, places[output], stride, kept, mask, value)

        masked_loop(writer, start, stop, body, "result")

    def _identities(self) -> list[list[str]]:
        return [accumulator.identity() for accumulator in self.accumulators]

    def _scratch_place(self, memory: str, kind: str, lane: str, offset: str) -> str:
        row = self.writer.value(f"mul i64 {lane}, {self.pitch}")
        index = self.writer.value(f"add i64 {row}, {offset}")
        return self.writer.value(f"getelementptr {_scratch_element(kind)}, ptr {memory}, i64 {index}")

    def _keep(self, lane: str, offset: str, partials: list[list[str]]) -> None:
        """Put a vector of partial results at (lane, offset) of the scratch."""
        for accumulator, memories, partial in zip(self.accumulators, self.scratch, partials, strict=True):
            for kind, memory, value in zip(accumulator.types, memories, partial, strict=True):
                place = self._scratch_place(memory, kind, lane, offset)
                if _is_boolean(kind):
                    value = self.writer.value(f"zext {kind} {value} to {vector('i8', LANES)}")
                    kind = vector("i8", LANES)
                self.writer.emit(f"store {kind} {value}, ptr {place}, align 16")

    def _kept(self, lane: str, offset: str) -> list[list[str]]:
        """The vectors of partial results at (lane, offset) of the scratch."""
        result = []
        for accumulator, memories in zip(self.accumulators, self.scratch, strict=True):
            parts = []
            for kind, memory in zip(accumulator.types, memories, strict=True):
                place = self._scratch_place(memory, kind, lane, offset)
                if _is_boolean(kind):
                    raw = self.writer.value(f"load {vector('i8', LANES)}, ptr {place}, align 16")
                    parts.append(self.writer.value(f"trunc {vector('i8', LANES)} {raw} to {kind}"))
                else:
                    parts.append(self.writer.value(f"load {kind}, ptr {place}, align 16"))
            result.append(parts)
        return result


def _is_boolean(kind: str) -> bool:
    return kind == vector("i1", LANES)


def _scratch_element(kind: str) -> str:
    element = kind[1:-1].split(" x ")[1]
    return "i8" if element == "i1" else element

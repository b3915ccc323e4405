"""Kernels that reduce one collapsed dimension, in the order that `spec.Reduction` fixes.

"row" keeps the 16 lanes of the order in one vector; "column" keeps them as 16 rows of a scratch in the cache and is
vectorised over what is kept. Both add the same numbers in the same order, so they give the same bits.

A partial result of argmax or argmin is its position alone: where an output has several blocks, reduce the values first.
A bfloat16 value may be stored as float32, unrounded, to be combined with other blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.kernels.access import load_vector, row_value, store_vector
from trainer.engine.kernels.combine import Accumulator, Moments
from trainer.engine.kernels.expression import LANES, MEMORY, cast, memory_type, narrow, render_body
from trainer.engine.kernels.loops import (
    IOTA,
    Arguments,
    advance,
    broadcast,
    carried_loop,
    counted_loop,
    cursor_type,
    decode,
    for_each_row,
    for_each_run,
    load_arguments,
    masked_loop,
    minimum,
    place_at,
    tail_mask,
    vector_loop,
    whole_vectors,
)
from trainer.engine.kernels.spec import LoopKernel
from trainer.engine.kernels.writer import Writer, vector

COLUMN_PART = 64
"""Kept elements in one part of a "column" reduction."""
STRIP_PARTS = 16
"""How many neighbouring parts of one task are read together: short pieces of far rows would starve on page misses."""
PREFETCH_STEPS = 16


def render_reduction(kernel: LoopKernel, name: str) -> str:
    """The module text of `kernel` (which has a reduction), exporting `void name(ptr arguments, i64 task)`."""
    if kernel.reduction is None:
        raise ValueError("a kernel without a reduction is rendered by elementwise.render")
    row = kernel.reduction.orientation == "row"
    if kernel.rank < (1 if row else 2):
        raise ValueError(f"a {kernel.reduction.orientation} reduction has at least {1 if row else 2} dimensions")
    return _Reduction(kernel, row).render(name)


class _Reduction:
    """One kernel while it is written."""

    def __init__(self, kernel: LoopKernel, row: bool) -> None:
        assert kernel.reduction is not None
        self.kernel = kernel
        self.row = row
        self.writer = Writer()
        # mean and deviations of one value share an accumulator
        shared = dict.fromkeys(
            ("moments" if operation in ("mean", "deviations") else operation, instruction)
            for operation, (instruction, _) in zip(kernel.reduction.operations, kernel.outputs, strict=True)
        )
        self.terms = [instruction for _, instruction in shared]
        self.accumulators = [
            (Moments if operation == "moments" else Accumulator)(operation, kernel.body[instruction].dtype)
            for operation, instruction in shared
        ]
        places = {term: place for place, term in enumerate(shared)}
        self.results = [
            (places["moments" if operation in ("mean", "deviations") else operation, instruction], operation)
            for operation, (instruction, _) in zip(kernel.reduction.operations, kernel.outputs, strict=True)
        ]
        self.reduced = kernel.rank - (1 if row else 2)

    def render(self, name: str) -> str:
        writer = self.writer
        writer.label("entry")
        self.arguments: Arguments = load_arguments(writer, self.kernel)
        self.elements = [MEMORY[operand.dtype.name] for operand in self.arguments.operands]
        length, chunk = self.arguments.sizes[self.reduced], self.arguments.chunk
        padded = writer.value(f"add i64 {length}, {writer.value(f'sub i64 {chunk}, 1')}")
        blocks = writer.value(f"udiv i64 {padded}, {chunk}")
        empty = writer.value(f"icmp eq i64 {blocks}, 0")
        blocks = writer.value(f"select i1 {empty}, i64 1, i64 {blocks}")
        group, self.block = writer.value(f"udiv i64 %task, {blocks}"), writer.value(f"urem i64 %task, {blocks}")
        self.start = writer.value(f"mul i64 {self.block}, {chunk}")
        self.stop = minimum(writer, length, writer.value(f"add i64 {self.start}, {chunk}"))
        first = writer.value(f"mul i64 {group}, {self.arguments.grain}")
        if self.row:
            self._rows(first)
        else:
            self._columns(first)
        writer.emit("ret void")
        return writer.module(name)

    def _last(self, first: str, total: str) -> str:
        return minimum(self.writer, total, self.writer.value(f"add i64 {first}, {self.arguments.grain}"))

    def _positions(self, position: str, consecutive: bool) -> str:
        """Places along the reduced dimension as int64 lanes: `position` on, or `position` on every lane."""
        if not any(accumulator.tracks_position for accumulator in self.accumulators):
            return ""
        spread = broadcast(self.writer, "i64", position)
        return self.writer.value(f"add {vector('i64', LANES)} {spread}, {IOTA['i64']}") if consecutive else spread

    def _distances(self, values: list[str], pivots: list[str]) -> list[str]:
        """`values`, less the pivot where there is one."""
        return [
            self.writer.value(f"fsub {accumulator.types[0]} {value}, {pivot}") if pivot else value
            for accumulator, value, pivot in zip(self.accumulators, values, pivots, strict=True)
        ]

    def _final(self, result: int, partials: list[list[str]], pivots: list[str]) -> str:
        """The value of output `result` of a block, from the combined partial results."""
        place, operation = self.results[result]
        accumulator = self.accumulators[place]
        if not isinstance(accumulator, Moments):
            return accumulator.final(partials[place])
        element = accumulator.types[0][1:-1].split(" x ")[1]
        length = self.writer.value(f"sub i64 {self.stop}, {self.start}")
        count = broadcast(self.writer, element, self.writer.value(f"uitofp i64 {length} to {element}"))
        return accumulator.result_of(self.writer, operation, partials[place], pivots[place], count)

    def _values(self, places: list[str], fixed: dict[int, str], position: str, mask: str | None) -> list[str]:
        """The values to reduce, from the body on the operands at `position` of the innermost dimension."""
        loaded = [
            fixed[number]
            if number in fixed
            else load_vector(self.writer, operand, places[number], self.arguments.strides[number][-1], position, mask)
            for number, operand in enumerate(self.kernel.inputs)
        ]
        values = render_body(self.writer, self.kernel.body, loaded)
        return [values[instruction] for instruction in self.terms]

    def _fixed(self, places: list[str]) -> dict[int, str]:
        return {
            number: row_value(self.writer, operand, places[number])
            for number, operand in enumerate(self.kernel.inputs)
            if operand.inner == "broadcast"
        }

    # row: vectors run along the reduced dimension

    def _rows(self, first: str) -> None:
        writer, arguments = self.writer, self.arguments
        if self.reduced == 0:
            self._row(arguments.bases)
            return
        total = arguments.sizes[0]
        for size in arguments.sizes[1 : self.reduced]:
            total = writer.value(f"mul i64 {total}, {size}")
        for_each_run(
            writer, arguments, self.elements, self.reduced, first, self._last(first, total),
            lambda run: for_each_row(writer, arguments, self.elements, run, run.count, run.places, self._row),
        )  # fmt: skip

    def _row(self, places: list[str]) -> None:
        writer = self.writer
        fixed = self._fixed(places)
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
            value = self._final(number, folded, pivots)
            raw = narrow(writer, cast(writer, value, self.accumulators[place].result, operand.dtype), operand.dtype)
            kind = memory_type(operand.dtype)
            element = self.elements[output]
            scalar = writer.value(f"extractelement {kind} {raw}, i64 0")
            moved = writer.value(f"mul i64 {self.block}, {self.arguments.strides[output][self.reduced]}")
            address = advance(writer, operand, element, places[output], moved)
            writer.emit(f"store {element} {scalar}, ptr {address}, align {operand.dtype.itemsize}")

    def _row_pivots(self, places: list[str], fixed: dict[int, str]) -> list[str]:
        """The mean of the block's first LANES elements on every lane, for accumulators that take distances from it."""
        if not any(isinstance(accumulator, Moments) for accumulator in self.accumulators):
            return [""] * len(self.accumulators)
        count = self._pivot_count()
        mask = tail_mask(self.writer, count)
        first = self._values(places, fixed, self.start, mask)
        pivots = []
        for accumulator, value in zip(self.accumulators, first, strict=True):
            if isinstance(accumulator, Moments):
                kind = accumulator.types[0]
                value = self.writer.value(
                    f"select {vector('i1', LANES)} {mask}, {kind} {value}, {kind} zeroinitializer"
                )
                total = accumulator.fold_lanes(self.writer, [value, "zeroinitializer"])
                mean = self._divided(accumulator, total[0], count)
                lanes = f"<{LANES} x i32> zeroinitializer"
                pivots.append(self.writer.value(f"shufflevector {kind} {mean}, {kind} poison, {lanes}"))
            else:
                pivots.append("")
        return pivots

    def _pivot_count(self) -> str:
        """How many elements, the block's first ones, the pivot is the mean of."""
        return minimum(self.writer, self.writer.value(f"sub i64 {self.stop}, {self.start}"), str(LANES))

    def _divided(self, accumulator: Accumulator, value: str, count: str) -> str:
        """A vector over an integer."""
        kind = accumulator.types[0]
        element = kind[1:-1].split(" x ")[1]
        number = broadcast(self.writer, element, self.writer.value(f"uitofp i64 {count} to {element}"))
        return self.writer.value(f"fdiv {kind} {value}, {number}")

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
            values = self._distances(self._values(places, fixed, position, None), pivots)
            positions = self._positions(position, True)
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
        values = self._distances(self._values(places, fixed, middle, mask), pivots)
        positions = self._positions(middle, True)
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

    # column: vectors run along what is kept

    def _columns(self, first: str) -> None:
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

        last = self._last(first, total)

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
            fixed = self._fixed(here)
            positions = self._positions(position, False)
            lane = writer.value(f"and i64 {position}, {LANES - 1}")

            def body(kept: str, mask: str | None) -> None:
                self._prefetch(here, kept)
                offset = writer.value(f"sub i64 {kept}, {start}")
                values = self._distances(self._values(here, fixed, kept, mask), self._kept_pivots(offset))
                partials = zip(self.accumulators, self._kept(lane, offset), values, strict=True)
                self._keep(lane, offset, [a.take(writer, old, value, positions, None) for a, old, value in partials])

            vector_loop(writer, start, stop, body, "kept")
            return [
                advance(writer, operand, self.elements[number], place, self.arguments.strides[number][self.reduced])
                for number, (operand, place) in enumerate(zip(operands, here, strict=True))
            ]

        initial = [(cursor_type(operand), place) for operand, place in zip(operands, places, strict=False)]
        carried_loop(writer, self.start, self.stop, 1, initial, step, "reduce")
        self._store_column(places, start, stop)

    def _clear(self, width: str) -> None:
        """Partial results of no elements everywhere in the scratch."""

        def clear(lane: str) -> None:
            counted_loop(
                self.writer, "0", width, LANES, lambda offset: self._keep(lane, offset, self._identities()), "clear"
            )

        counted_loop(self.writer, "0", str(LANES), 1, clear, "lane")

    def _keep_pivots(self, places: list[str], start: str, stop: str) -> None:
        """Put the means of the block's first rows, one for each lane, into the scratch of pivots."""
        writer, count = self.writer, self._pivot_count()
        operands = self.arguments.operands[: len(self.kernel.inputs)]

        def row(lane: str, here: list[str]) -> list[str]:
            fixed = self._fixed(here)

            def body(kept: str, mask: str | None) -> None:
                offset = writer.value(f"sub i64 {kept}, {start}")
                found = zip(self.accumulators, self._identities(), self._values(here, fixed, kept, mask), strict=True)
                first = [[value, *old[1:]] if isinstance(a, Moments) else old for a, old, value in found]
                self._keep(lane, offset, first)

            masked_loop(writer, start, stop, body, "first")
            return [
                advance(writer, operand, self.elements[number], place, self.arguments.strides[number][self.reduced])
                for number, (operand, place) in enumerate(zip(operands, here, strict=True))
            ]

        initial = [(cursor_type(operand), place) for operand, place in zip(operands, places, strict=False)]
        carried_loop(writer, "0", count, 1, initial, row, "pivot")

        def fold(kept: str, mask: str | None) -> None:
            offset = writer.value(f"sub i64 {kept}, {start}")
            lanes = [self._kept(str(lane), offset) for lane in range(LANES)]
            for number, (accumulator, memory) in enumerate(zip(self.accumulators, self.pivots, strict=True)):
                if memory:
                    kind = accumulator.types[0]
                    total = accumulator.fold_list(writer, [lane[number] for lane in lanes])[0]
                    mean = self._divided(accumulator, total, count)
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
                result = self._final(number, folded, pivots)
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

"""The shared part of kernels that reduce one block of a collapsed dimension in the order that `spec.Reduction` fixes.

"row" keeps the 16 lanes of the order in one vector (`reduction_rows`); "column" keeps them as 16 rows of a scratch in
the cache and is vectorized over kept elements (`reduction_columns`). Both add the same numbers in the same order, so
they give the same bits.

A partial result of argmax or argmin is only its position: if an output has several blocks, another output has their
values. A bfloat16 value may be stored as float32, unrounded, to be combined with other blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainer.engine.targets.cpu.kernels.access import load_inputs, row_values
from trainer.engine.targets.cpu.kernels.loop_kernel import LoopKernel
from trainer.engine.targets.cpu.kernels.loops import IOTA, Arguments, Part, bounds, broadcast, load_arguments, minimum
from trainer.engine.targets.ir.combine import Accumulator, Moments
from trainer.engine.targets.ir.expression import COMPUTE, LANES, cast, render_body
from trainer.engine.targets.ir.operand import Operand
from trainer.engine.targets.ir.writer import Integer, Writer, vector


class BlockReduction:
    """Writes one kernel; `kept_inside`: number of kept dimensions inside the reduced one."""

    def __init__(self, kernel: LoopKernel, kept_inside: int) -> None:
        if kernel.reduction is None:
            raise ValueError("a kernel without a reduction is rendered by elementwise.render")
        if kernel.rank <= kept_inside:
            name = kernel.reduction.orientation
            raise ValueError(f"a {name} reduction has at least {1 + kept_inside} dimensions")
        self.kernel = kernel
        self.writer = Writer()
        operations = kernel.reduction.operations
        # mean and deviations of one value share an accumulator
        terms = [
            ("moments" if operation in ("mean", "deviations") else operation, instruction)
            for operation, (instruction, _) in zip(operations, kernel.outputs, strict=True)
        ]
        shared = list(dict.fromkeys(terms))
        self.terms = [instruction for _, instruction in shared]
        self.accumulators = [
            (Moments if operation == "moments" else Accumulator)(operation, kernel.body[instruction].dtype)
            for operation, instruction in shared
        ]
        self.results = [(shared.index(term), operation) for term, operation in zip(terms, operations, strict=True)]
        self.reduced = kernel.rank - 1 - kept_inside

    def render(self, name: str) -> str:
        writer = self.writer
        self.arguments: Arguments = load_arguments(writer, self.kernel)
        length, chunk = self.arguments.sizes[self.reduced], self.arguments.chunk
        padded = writer.value(f"add i64 {length}, {writer.value(f'sub i64 {chunk}, 1')}")
        blocks = writer.value(f"udiv i64 {padded}, {chunk}")
        empty = writer.value(f"icmp eq i64 {blocks}, 0")
        blocks = writer.value(f"select i1 {empty}, i64 1, i64 {blocks}")
        group, self.block = writer.value(f"udiv i64 %task, {blocks}"), writer.value(f"urem i64 %task, {blocks}")
        self.start, self.stop = bounds(writer, self.block, chunk, length)
        first = writer.value(f"mul i64 {group}, {self.arguments.grain}")
        self.write(first)
        return writer.module(name)

    def write(self, first: str) -> None:
        """Reduces the task's block of the kept parts from `first` on."""
        raise NotImplementedError

    def last(self, first: str, total: Integer) -> str:
        """The end of the task's kept parts, of `total`."""
        return minimum(self.writer, total, self.writer.value(f"add i64 {first}, {self.arguments.grain}"))

    def positions(self, position: Integer, consecutive: bool) -> str:
        """Positions along the reduced dimension as int64 lanes: from `position` on, or `position` on every lane."""
        if not any(accumulator.tracks_position for accumulator in self.accumulators):
            return ""
        spread = broadcast(self.writer, "i64", position)
        return self.writer.value(f"add {vector('i64', LANES)} {spread}, {IOTA['i64']}") if consecutive else spread

    def distances(self, values: list[str], pivots: list[str]) -> list[str]:
        """`values` minus the pivots, if any."""
        return [
            self.writer.value(f"fsub {accumulator.types[0]} {value}, {pivot}") if pivot else value
            for accumulator, value, pivot in zip(self.accumulators, values, pivots, strict=True)
        ]

    def finals(
        self, places: list[str], partials: list[list[str]], pivots: list[str]
    ) -> Iterator[tuple[Operand, str, Sequence[Integer], str]]:
        """Yields each output of a block with its place, its strides and its value from the combined partial results."""
        inputs = len(self.kernel.inputs)
        outputs = zip(self.results, self.kernel.outputs, places[inputs:], self.arguments.strides[inputs:], strict=True)
        for (place, operation), (_, operand), target, strides in outputs:
            accumulator = self.accumulators[place]
            if isinstance(accumulator, Moments):
                count = self.spread_count(accumulator, self.writer.value(f"sub i64 {self.stop}, {self.start}"))
                value = accumulator.result_of(self.writer, operation, partials[place], pivots[place], count)
            else:
                value = accumulator.final(partials[place])
            yield operand, target, strides, cast(self.writer, value, accumulator.result, operand.dtype)

    def grouped(self, parts: Sequence[str]) -> list[list[str]]:
        """Splits a flat list of the accumulators' vectors into one list for each accumulator."""
        rest = iter(parts)
        return [[next(rest) for _ in accumulator.types] for accumulator in self.accumulators]

    def values(self, places: list[str], fixed: dict[int, str], part: Part) -> list[str]:
        """The values to reduce: the body on the operands at `part` of the innermost dimension."""
        loaded = load_inputs(self.writer, self.kernel.inputs, fixed, places, part, self.arguments.strides)
        values = render_body(self.writer, self.kernel.body, loaded)
        return [values[instruction] for instruction in self.terms]

    def fixed(self, places: list[str]) -> dict[int, str]:
        """The values of operands that are constant along the innermost dimension."""
        return row_values(self.writer, self.kernel.inputs, places)

    def pivot_elements(self) -> tuple[str, str]:
        """The offset in the block and the number of its middle elements, whose mean is the pivot."""
        writer = self.writer
        length = writer.value(f"sub i64 {self.stop}, {self.start}")
        count = minimum(writer, length, str(LANES))
        return writer.value(f"lshr i64 {writer.value(f'sub i64 {length}, {count}')}, 1"), count

    def divided(self, accumulator: Accumulator, value: str, count: str) -> str:
        """A vector divided by an integer."""
        number = self.spread_count(accumulator, count)
        return self.writer.value(f"fdiv {accumulator.types[0]} {value}, {number}")

    def spread_count(self, accumulator: Accumulator, count: str) -> str:
        """An integer on every lane, as floats of the accumulator."""
        element = COMPUTE[accumulator.working.name]
        return broadcast(self.writer, element, self.writer.value(f"uitofp i64 {count} to {element}"))

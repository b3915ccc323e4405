"""Adds the partial totals of a weight gradient from groups of blocks, in ascending group order, and finishes the sum.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [totals, output, epilogue operands…], addresses,
then the words (filters, weights, groups); totals is [groups][R][S][C/groups][K].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue
from trainer.engine.targets.cpu.kernels.access import Elements
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.loops import tail_mask
from trainer.engine.targets.cpu.kernels.tile import store_finished
from trainer.engine.targets.ir.expression import lanes_of
from trainer.engine.targets.ir.writer import Integer, Writer


@dataclass(frozen=True, slots=True)
class TotalsSpec:
    """The sum of `groups` totals of a gradient of `weights` elements, in rows of `filters`; the epilogue applies to the
    sum.
    """

    dtype: DType
    weights: int
    filters: int
    epilogue: Epilogue
    groups: int

    @classmethod
    def of(cls, convolution: ConvolutionSpec, groups: int) -> TotalsSpec:
        """The totals of a convolution's weight gradient."""
        return cls(convolution.dtype, convolution.weights, convolution.filters, convolution.epilogue, groups)

    @property
    def size(self) -> int:
        """Elements of all totals."""
        return self.groups * self.weights

    @property
    def is_needed(self) -> bool:
        """Whether the result differs from the totals."""
        return self.groups > 1 or bool(self.epilogue.body)

    @property
    def tasks(self) -> int:
        """One task for each row of K weights."""
        return self.weights // self.filters

    @property
    def words(self) -> tuple[int, ...]:
        """The words after the addresses."""
        return (self.filters, self.weights, self.groups)

    @property
    def coded(self) -> TotalsSpec:
        """The specification shared by all that have the same code."""
        return replace(self, weights=0, filters=0, groups=0)

    def render(self, name: str) -> str:
        """The module of the kernel."""
        w, dtype = Writer(), self.dtype
        memory, lanes = Elements(w, dtype), lanes_of(dtype)
        totals, output = w.argument(0), w.argument(1)
        operands = OperandPointers.load(w, self.epilogue, 2)
        first = 2 + len(self.epilogue.operands)
        filters, weights, groups = (w.argument(word, "i64") for word in range(first, first + 3))
        row = w.multiply("%task", filters)
        add = "fadd" if dtype.is_float else "add"
        whole = w.value(f"and i64 {filters}, {-lanes}", "i")
        rest = w.subtract(filters, whole)

        def part(column: Integer, active: str | None) -> None:
            place = w.add(row, column)
            with w.loop(1, groups, carried=[(memory.kind, memory.load(totals, place, active))]) as group:
                here = w.add(place, w.multiply(group.index, weights))
                following = memory.load(totals, here, active)
                group.next = [w.value(f"{add} {memory.kind} {group.carried[0]}, {following}")]
            store_finished(w, operands, dtype, group.next[0], output, place, column, active)

        with w.loop(0, whole, lanes) as loop:
            part(loop.index, None)
        with w.when(w.value(f"icmp ne i64 {rest}, 0", "c")):
            part(whole, tail_mask(w, rest, lanes))
        return w.module(name, scratch=True)

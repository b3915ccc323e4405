"""Adding up what groups of blocks have left of a weight gradient, in ascending order of the groups, and finishing it.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [totals, output, epilogue operands…], addresses;
totals is [groups][R][S][C/groups][K].
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.access import Elements
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.expression import lanes_of
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.tile import store_finished
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer


@dataclass(frozen=True, slots=True)
class TotalsSpec:
    """The weight gradient whose `groups` totals are added; its epilogue works on the sum."""

    convolution: ConvolutionSpec
    groups: int

    @property
    def size(self) -> int:
        """Elements of all totals."""
        return self.groups * self.convolution.weights

    @property
    def is_needed(self) -> bool:
        """Whether the totals are not the result itself."""
        return self.groups > 1 or bool(self.convolution.epilogue.body)

    @property
    def tasks(self) -> int:
        """One task for each row of K weights."""
        return self.convolution.weights // self.convolution.filters

    def render(self, name: str) -> str:
        """The module of the kernel."""
        w, dtype, filters = Writer(), self.convolution.dtype, self.convolution.filters
        memory, lanes = Elements(w, dtype), lanes_of(dtype)
        totals, output = w.argument(0), w.argument(1)
        operands = OperandPointers.load(w, self.convolution.epilogue, 2)
        row = w.multiply("%task", filters)

        def part(column: Integer, active: int) -> None:
            place, total = w.add(row, column), ""
            for group in range(self.groups):
                value = memory.load(totals, w.add(place, group * self.convolution.weights), active)
                add = "fadd" if dtype.is_float else "add"
                total = w.value(f"{add} {memory.kind} {total}, {value}") if total else value
            store_finished(w, operands, dtype, total, output, place, column, active)

        whole = filters - filters % lanes
        if whole:
            with w.loop(0, whole, lanes) as loop:
                part(loop.index, lanes)
        if filters % lanes:
            part(whole, filters % lanes)
        return w.module(name, scratch=True)

"""Adding up what groups of blocks have left of a weight gradient, in ascending order of the groups, and finishing it.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [totals, output, epilogue operands…], addresses;
totals is [groups][R][S][C/groups][K].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.epilogue import OperandPointers
from trainer.engine.targets.cpu.kernels.expression import MEMORY
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.tile import finish, lanes_of
from trainer.engine.targets.cpu.kernels.writer import Integer, Writer, vector


@dataclass(frozen=True, slots=True)
class TotalsSpec:
    """The weight gradient whose `groups` totals are added; its epilogue works on the sum."""

    convolution: ConvolutionSpec
    groups: int

    @property
    def weights(self) -> int:
        """Elements of the result."""
        plain = self.convolution
        return math.prod(plain.window) * (plain.channels // plain.groups) * plain.filters

    @property
    def size(self) -> int:
        """Elements of all totals."""
        return self.groups * self.weights

    @property
    def is_needed(self) -> bool:
        """Whether the totals are not the result itself."""
        return self.groups > 1 or bool(self.convolution.epilogue.body)


def tasks(spec: TotalsSpec) -> int:
    """One task for each row of K weights."""
    return spec.weights // spec.convolution.filters


def render(spec: TotalsSpec, name: str) -> str:
    """The module of the kernel."""
    w = Writer()
    plain = spec.convolution
    dtype, lanes, filters, epilogue = plain.dtype, lanes_of(plain.dtype), plain.filters, plain.epilogue
    element, stored = MEMORY[dtype.name], epilogue.output(dtype)
    totals, output = w.argument(0), w.argument(1)
    operands = OperandPointers.load(w, epilogue, 2)
    row = w.multiply("%task", filters)
    kind = vector(element, lanes)

    def part(column: Integer, active: int) -> None:
        place = w.add(row, column)
        total = "zeroinitializer"
        for group in range(spec.groups):
            pointer = w.pointer(totals, w.add(place, group * spec.weights), element)
            value = load_vector(w, dtype, pointer, lanes, active)
            total = value if group == 0 else w.value(f"{'fadd' if dtype.is_float else 'add'} {kind} {total}, {value}")
        value = finish(w, epilogue, dtype, total, operands.at(w, place, column), active)
        store_vector(w, stored, value, w.pointer(output, place, MEMORY[stored.name]), lanes, active)

    whole = filters - filters % lanes
    if whole:
        with w.loop(0, whole, lanes) as loop:
            part(loop.index, lanes)
    if filters % lanes:
        part(whole, filters % lanes)
    return w.module(name, scratch=True)

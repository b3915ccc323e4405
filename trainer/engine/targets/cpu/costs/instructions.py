"""Which instructions multiply the elements of a product or a convolution on a machine."""

from __future__ import annotations

from typing import Protocol

from trainer.engine.targets.cpu.kernels.quads import Quads
from trainer.engine.targets.cpu.machine import Machine


class Multiplied(Protocol):
    """What a specification says of the elements that it multiplies."""

    @property
    def pairs(self) -> bool: ...
    @property
    def tiled(self) -> bool: ...
    @property
    def quads(self) -> Quads: ...


def uses_tile_registers(spec: Multiplied, machine: Machine) -> bool:
    """Whether AMX multiplies: pairs where the class says so, quads where it can."""
    return spec.tiled or (bool(spec.quads) and machine.int8_tiles)


def instructions(spec: Multiplied, machine: Machine) -> tuple[bool, bool]:
    """(whether one instruction multiplies the elements of pairs or quads, whether the tile needs further registers)."""
    if uses_tile_registers(spec, machine):
        return False, False
    if spec.quads:
        return machine.int8, spec.quads == "signed" or not machine.int8
    return spec.pairs and machine.bfloat16, spec.pairs and not machine.bfloat16

"""Which instructions multiply the elements of a product or a convolution on a machine."""

from __future__ import annotations

from trainer.engine.targets.cpu.kernels.contraction import MatmulSpec
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.machine import Machine


def uses_tile_registers(spec: MatmulSpec | ConvolutionSpec, machine: Machine) -> bool:
    """Whether AMX multiplies: pairs where the class says so, quads where it can."""
    return spec.tiled or (bool(spec.quads) and machine.int8_tiles)


def instructions(spec: MatmulSpec | ConvolutionSpec, machine: Machine) -> tuple[bool, bool]:
    """(whether one instruction multiplies the elements of pairs or quads, whether the tile needs further registers)."""
    if uses_tile_registers(spec, machine):
        return False, False
    if spec.quads:
        return machine.int8, spec.quads == "signed" or not machine.int8
    return spec.pairs and machine.bfloat16, spec.pairs and not machine.bfloat16

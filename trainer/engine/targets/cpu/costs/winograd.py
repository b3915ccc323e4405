"""Tiles and tasks of convolutions, and of their weight gradients, by Winograd's algorithm."""

from __future__ import annotations

from trainer.engine.targets.cpu.costs.cycles import (
    SCRATCH_LIMIT,
    SHARED_BYTES_PER_CYCLE,
    TASK_OVERHEAD,
    balance,
    cut_cycles,
    fits_registers,
    pieces,
    steps,
)
from trainer.engine.targets.cpu.costs.ranking import best, cheapest_sizes, cheapest_tiles
from trainer.engine.targets.cpu.kernels import winograd, winograd_gradient
from trainer.engine.targets.cpu.kernels.geometry import correlation
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.cpu.kernels.winograd import WinogradParameters
from trainer.engine.targets.cpu.kernels.winograd_choice import WinogradSpec
from trainer.engine.targets.cpu.kernels.winograd_gradient import WinogradGradientParameters
from trainer.engine.targets.cpu.machine import Machine

WINOGRAD_CYCLES = 4
"""Of one transformed vector of inputs or products."""


def winograd_parameters(spec: WinogradSpec, machine: Machine) -> tuple[WinogradParameters, ...]:
    """Tiles of the product in the transformed domain; tasks also pay for transforms."""
    form, lanes = correlation(spec.convolution), lanes_of(spec.convolution.dtype)
    points, panels, tiles = spec.algorithm.points**2, -(-form.outputs // lanes), spec.tiles
    shapes = cheapest_tiles(
        [
            (points * cut_cycles([pieces(tiles, m)], pieces(panels, v), form.inputs), (m, v))
            for v in range(1, min(panels, 4) + 1)
            for m in range(1, min(tiles, machine.vectors) + 1)
            if fits_registers(m, v, machine)
        ]
    )
    options: list[tuple[float, WinogradParameters]] = []
    for cycles, (m, v) in shapes:
        sizes = []
        for task_vectors in steps(v, panels):
            for block_vectors in steps(v, task_vectors):
                for task_tiles in range(m, min(tiles, 64) + m, m):
                    parameters = WinogradParameters(m, v, task_tiles, task_vectors, block_vectors)
                    scratch = winograd.scratch_bytes(spec, parameters)
                    if scratch > SCRATCH_LIMIT:
                        continue
                    tasks = winograd.tasks(spec, parameters)
                    inputs = tiles * -(-form.inputs // lanes) * -(-panels // task_vectors)
                    transforms = (inputs + tiles * panels) * points * WINOGRAD_CYCLES
                    block = points * form.inputs * min(block_vectors, panels) * 64
                    share = points * form.inputs * min(task_vectors, panels) * 64
                    blocks = -(-min(task_vectors, panels) // block_vectors)
                    weights = tasks * share if share + scratch > machine.level2_bytes else tasks * share / 4
                    again = tasks * blocks * max(0, scratch + block - machine.level2_bytes)
                    total = cycles + transforms + tasks * TASK_OVERHEAD + (weights + again) / SHARED_BYTES_PER_CYCLE
                    total *= balance(tasks)
                    sizes.append((total, tasks, parameters))
        options += cheapest_sizes(sizes)
    return best(options)


def winograd_gradient_parameters(spec: WinogradSpec, machine: Machine) -> tuple[WinogradGradientParameters, ...]:
    """Tiles of channels and filters at each point; tasks also pay for transforms there and back."""
    plain, blocks, lanes = spec.convolution, winograd_gradient.tile_blocks(spec), lanes_of(spec.convolution.dtype)
    points, panels, inputs = spec.algorithm.points**2, -(-plain.filters // lanes), -(-plain.channels // lanes)
    tiles = min(winograd_gradient.TILES, spec.tiles)
    shapes = cheapest_tiles(
        [
            (cut_cycles([pieces(plain.channels, m)], pieces(panels, v), tiles), (m, v))
            for v in range(1, min(panels, 4) + 1)
            for m in range(1, min(plain.channels, machine.vectors) + 1)
            if fits_registers(m, v, machine)
        ]
    )
    options: list[tuple[float, WinogradGradientParameters]] = []
    for cycles, (m, v) in shapes:
        sizes = []
        for task_channels in steps(1, inputs):
            for task_vectors in steps(v, panels):
                parameters = WinogradGradientParameters(m, v, task_channels, task_vectors)
                scratch = winograd_gradient.scratch_bytes(spec, parameters)
                if scratch > SCRATCH_LIMIT:
                    continue
                tasks = winograd_gradient.tasks(spec, parameters)
                vectors = min(task_vectors, panels)
                read = points * tiles * (task_channels + vectors) * WINOGRAD_CYCLES
                again = max(0, scratch - machine.level2_bytes) * 2 / SHARED_BYTES_PER_CYCLE
                back = points * task_channels * lanes * vectors * WINOGRAD_CYCLES
                total = tasks * (blocks.blocks_per_group * (read + again) + back + TASK_OVERHEAD)
                total += blocks.count * points * cycles
                sizes.append((total * balance(tasks), tasks, parameters))
        options += cheapest_sizes(sizes)
    return best(options)

"""Tiles and tasks of convolutions' weight gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

from trainer.engine.targets.cpu.costs.cycles import (
    COPY_BYTES_PER_CYCLE,
    PADDING,
    SCRATCH_LIMIT,
    STREAM_BYTES_PER_CYCLE,
    TASK_OVERHEAD,
    balance,
    cut_cycles,
    fits_registers,
    pieces,
    steps,
)
from trainer.engine.targets.cpu.costs.ranking import best, cheapest_sizes, cheapest_tiles
from trainer.engine.targets.cpu.kernels import weight_gradient
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.cpu.kernels.weight_gradient import WeightGradientParameters
from trainer.engine.targets.cpu.machine import Machine


def weight_gradient_parameters(spec: ConvolutionSpec, machine: Machine) -> tuple[WeightGradientParameters, ...]:
    """Tiles of weights by their cycles over all pixels, tasks by the windows that they copy or read."""
    native = spec.pairs and machine.bfloat16
    vectors = -(-(spec.filters // spec.groups) // lanes_of(spec.dtype))
    channels, (taps_rows, taps_columns) = spec.channels // spec.groups, spec.window
    blocks = weight_gradient.pixel_blocks(spec)
    pixels, count = math.prod(blocks.block), math.prod(blocks.counts)
    weights = taps_rows * taps_columns * channels
    tiles = []
    for v in range(1, min(vectors, 4) + 1):
        for m in range(1, min(weights, machine.vectors) + 1):
            if fits_registers(m, v, machine, widened=spec.pairs and not native):
                run = weights if weights <= m else channels * (taps_columns if spec.dilation[1] == 1 else 1)
                lines = weights // run
                cycles = lines * cut_cycles([pieces(run, min(m, run))], pieces(vectors, v), pixels)
                tiles.append((count * spec.groups * cycles, (min(m, run), v)))
    options: list[tuple[float, WeightGradientParameters]] = []
    for cycles, (m, v) in cheapest_tiles(tiles):
        sizes = []
        for task_vectors in steps(v, vectors):
            for task_lines in steps(1, weights // max(1, min(channels, weights))):
                parameters = WeightGradientParameters(m, v, task_lines, task_vectors, native=native)
                scratch = weight_gradient.scratch_bytes(spec, parameters)
                tasks = weight_gradient.tasks(spec, parameters)
                per_task = blocks.blocks_per_group * (scratch or pixels * channels * spec.dtype.itemsize)
                rate = COPY_BYTES_PER_CYCLE if scratch else STREAM_BYTES_PER_CYCLE
                total = (cycles + tasks * (TASK_OVERHEAD + per_task / rate)) * balance(tasks)
                sizes.append((total, tasks, parameters))
        options += cheapest_sizes(sizes)
    return best(options, functools.partial(_weight_gradient_variants, spec))


def _weight_gradient_variants(
    spec: ConvolutionSpec, choice: WeightGradientParameters
) -> Iterator[WeightGradientParameters]:
    for padding in (0, PADDING):
        copied = replace(choice, copy=True, pixel_padding=padding)
        scratch = weight_gradient.scratch_bytes(spec, copied)
        if scratch <= SCRATCH_LIMIT and (padding or not weight_gradient.scratch_bytes(spec, choice)):
            yield copied

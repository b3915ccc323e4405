"""Tasks of convolutions that sum their output per channel, in blocks of pixels that the shape fixes."""

from __future__ import annotations

import math
from dataclasses import replace

from trainer.engine.targets.cpu.costs.convolution import convolution_parameters
from trainer.engine.targets.cpu.costs.cycles import (
    SHARED_BYTES_PER_CYCLE,
    STREAM_BYTES_PER_CYCLE,
    TASK_OVERHEAD,
    VARIANT_PENALTY,
    balance,
)
from trainer.engine.targets.cpu.costs.ranking import best
from trainer.engine.targets.cpu.kernels import statistics
from trainer.engine.targets.cpu.kernels.convolution import ConvolutionParameters
from trainer.engine.targets.cpu.kernels.geometry import correlation
from trainer.engine.targets.cpu.kernels.statistics import StatisticsSpec
from trainer.engine.targets.cpu.machine import Machine

BLOCK_TILES = 8
"""Tiles whose pixels a task takes through all its vectors before the next ones: they stay in the first-level cache."""


def statistics_parameters(spec: StatisticsSpec, machine: Machine) -> tuple[ConvolutionParameters, ...]:
    """The tiles that the convolution would have alone, its tasks cut as the reduction's blocks are."""
    plain = spec.convolution
    form = correlation(plain)
    vectors, pixels = form.packing.panels, form.columns.output_extent
    part = statistics.part_vectors(spec)
    options: list[tuple[float, ConvolutionParameters]] = []
    for place, tile in enumerate(convolution_parameters(plain, machine)):
        share = math.lcm(tile.tile_vectors, part)
        for task_vectors in sorted({min(share * count, -(-vectors // tile.tile_vectors) * tile.tile_vectors)
                                    for count in (1, 2, 4, 8, 16, 32)}):  # fmt: skip
            parameters = replace(
                tile,
                task_columns=spec.block,
                task_vectors=task_vectors,
                trim=False,
                block_columns=BLOCK_TILES * tile.tile_columns,
            )
            tasks, output = statistics.tasks(spec, parameters), min(spec.block, pixels) * task_vectors * 64
            reads = min(spec.block, pixels) * form.inputs * plain.dtype.itemsize
            far = max(0, output + reads - machine.level2_bytes) / SHARED_BYTES_PER_CYCLE
            total = tasks * (far + TASK_OVERHEAD + reads / STREAM_BYTES_PER_CYCLE) * balance(tasks)
            cycles = vectors * pixels * form.packing.depth / 2 * (1 + VARIANT_PENALTY * place)
            options.append((total + cycles * balance(tasks), parameters))
    return best(options)

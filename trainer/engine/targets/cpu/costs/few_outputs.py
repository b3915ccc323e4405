"""Tiles and tasks of convolutions to a few channels, whose vectors lie along pixels."""

from __future__ import annotations

from trainer.engine.targets.cpu.costs.cycles import (
    COPY_BYTES_PER_CYCLE,
    FMA_LATENCY,
    SHARED_BYTES_PER_CYCLE,
    TASK_OVERHEAD,
    TILE_OVERHEAD,
    balance,
    fits_registers,
    pieces,
    steps,
)
from trainer.engine.targets.cpu.costs.ranking import best, cheapest_sizes
from trainer.engine.targets.cpu.kernels import few_outputs
from trainer.engine.targets.cpu.kernels.few_outputs import FewOutputsParameters, FewOutputsSpec
from trainer.engine.targets.cpu.kernels.geometry import correlation
from trainer.engine.targets.cpu.machine import Machine

GATHER_CYCLES = 12
"""Of a pixel whose channels are gathered, finished and stored."""


def few_outputs_parameters(spec: FewOutputsSpec, machine: Machine) -> tuple[FewOutputsParameters, ...]:
    """Tiles along pixels whose accumulators stay in registers."""
    form = correlation(spec.convolution)
    width, height = few_outputs.width_of(form.columns), few_outputs.width_of(form.rows)
    depth = form.packing.depth / len(form.phases)
    options: list[tuple[float, FewOutputsParameters]] = []
    for task_rows in steps(1, height):
        vectors, sizes = few_outputs.vectors_of(spec, task_rows), []
        for v in range(1, min(vectors, machine.vectors) + 1):
            parameters = FewOutputsParameters(v, task_rows)
            scratch = few_outputs.scratch_bytes(spec, parameters)
            spills = v > 1 and not fits_registers(form.outputs, v, machine)  # no tile is smaller than v = 1
            if spills or scratch > few_outputs.SCRATCH_LIMIT:
                continue
            tasks = few_outputs.tasks(spec, parameters)
            cycles = sum(many * _line_cycles(form.outputs, size, depth) for size, many in pieces(vectors, v))
            cycles += TASK_OVERHEAD + scratch / COPY_BYTES_PER_CYCLE + task_rows * width * GATHER_CYCLES
            again = vectors / v * scratch if scratch > machine.level2_bytes else 0
            total = tasks * (cycles + again / SHARED_BYTES_PER_CYCLE) * balance(tasks)
            sizes.append((total, tasks, parameters))
        options += cheapest_sizes(sizes) if sizes else []
    return best(options)


def _line_cycles(channels: int, vectors: int, depth: float) -> float:
    """Of a tile along pixels: each of its vectors lies across two cache lines, and is loaded once for each step."""
    step = max(channels * vectors / 2, (channels + 2 * vectors) / 2, FMA_LATENCY)
    return depth * step + TILE_OVERHEAD

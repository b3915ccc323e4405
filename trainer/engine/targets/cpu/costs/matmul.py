"""Tiles and tasks of matrix products."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

from trainer.engine.targets.cpu.costs import tile_shapes
from trainer.engine.targets.cpu.costs.cycles import (
    SCRATCH_LIMIT,
    SHARED_BYTES_PER_CYCLE,
    STREAM_BYTES_PER_CYCLE,
    TASK_OVERHEAD,
    balance,
    cut_cycles,
    fits_registers,
    pieces,
    steps,
)
from trainer.engine.targets.cpu.costs.instructions import instructions, uses_tile_registers
from trainer.engine.targets.cpu.costs.ranking import best, cheapest_sizes, cheapest_tiles
from trainer.engine.targets.cpu.kernels import contraction
from trainer.engine.targets.cpu.kernels.contraction import MatmulParameters, MatmulSpec
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.cpu.machine import Machine

FAR_BYTES = 16 << 20
"""What is larger comes from memory rather than from a third-level cache."""


def matmul_parameters(spec: MatmulSpec, machine: Machine) -> tuple[MatmulParameters, ...]:
    """Tiles by their cycles, tasks by how often they read the operands again."""
    native, crowded = instructions(spec, machine)
    vectors, matrices = -(-spec.columns // lanes_of(spec.dtype)), math.prod(spec.batch)
    by_tiles = uses_tile_registers(spec, machine)
    if by_tiles:
        tiles = cheapest_tiles(
            [
                (tile_shapes.cycles([pieces(spec.rows, m)], pieces(vectors, v), spec.steps, 1), (m, v))
                for v in range(1, min(vectors, tile_shapes.MOST_VECTORS) + 1)
                for m in tile_shapes.heights(spec.rows)
            ]
        )
    else:
        tiles = cheapest_tiles(
            [
                (cut_cycles([pieces(spec.rows, m)], pieces(vectors, v), spec.steps), (m, v))
                for v in range(1, min(vectors, 4) + 1)
                for m in range(1, min(spec.rows, machine.vectors) + 1)
                if fits_registers(m, v, machine, widened=crowded)
            ]
        )
    right = vectors * spec.steps * 64
    options: list[tuple[float, MatmulParameters]] = []
    for cycles, (m, v) in tiles:
        sizes = []
        for task_vectors in steps(v, vectors):
            for task_rows in steps(m, spec.rows):
                parameters = MatmulParameters(m, v, task_rows, task_vectors, native=native, tiles=by_tiles)
                tasks = contraction.tasks(spec, parameters)
                rows = min(task_rows, spec.rows) * spec.steps * spec.dtype.itemsize
                left_reads = tasks * rows * _reads(rows, v * spec.steps * 64, -(-task_vectors // v), machine)
                right_reads = matrices * right * _reads(right, rows, -(-spec.rows // task_rows), machine)
                total = matrices * cycles + tasks * TASK_OVERHEAD + (left_reads + right_reads) / STREAM_BYTES_PER_CYCLE
                total *= balance(tasks)
                sizes.append((total, tasks, parameters))
        options += cheapest_sizes(sizes)
    return best(options, functools.partial(_matmul_variants, spec))


def _matmul_variants(spec: MatmulSpec, choice: MatmulParameters) -> Iterator[MatmulParameters]:
    if spec.steps > 1 and not choice.tiles:
        yield replace(choice, unroll=2)
    packed = replace(choice, pack_rows=True)
    read_again = choice.task_vectors > choice.tile_vectors and spec.a_strides[1] == 1
    if read_again and contraction.scratch_bytes(spec, packed) <= SCRATCH_LIMIT:
        yield packed


def _reads(operand: int, beside: int, passes: int, machine: Machine) -> float:
    """What `passes` passes over an operand cost, in reads from the second-level cache; `beside` bytes are used between.

    Tasks walk the columns of b before the next rows of a: what doesn't stay in that cache is read again each time.
    """
    if operand + beside <= machine.level2_bytes:
        return 1
    return passes if operand <= FAR_BYTES else passes * STREAM_BYTES_PER_CYCLE / SHARED_BYTES_PER_CYCLE

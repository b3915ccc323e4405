"""The cost of tiles in AMX registers, for the cost model. Nothing here was measured; the figures are Intel's.

A product of two registers takes 16 cycles, its result has a latency of 52 cycles, and loading a register takes 8 (Intel
64 and IA-32 Architectures Optimization Reference Manual, chapter on AMX). Two parts of the rows by two vectors
therefore keep the products busy.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from trainer.engine.targets.cpu.kernels import tile_registers

MOST_VECTORS = 4
PRODUCT_CYCLES, PRODUCT_LATENCY, LOAD_CYCLES = 16, 52, 8
STALLED_SHARE = 0.1
"""Fraction of the loads that the products do not hide, as for vectors."""

CONFIGURE_CYCLES = 150
SUM_CYCLES = 4
"""Cycles per stored vector of a sum: to memory, back, and through the epilogue."""

CALL_CYCLES = 40
APART = 1 << 20
"""Elements between rows of pixels, so large that it never equals the distance between pixels."""


def heights(total: int) -> list[int]:
    """Possible numbers of rows of a tile: whole registers, or equal parts of all rows."""
    most = 4 * tile_registers.ROWS
    whole = {min(total, tile_registers.ROWS * parts) for parts in range(1, 5)}
    return sorted(whole | {-(-total // parts) for parts in range(1, 9) if -(-total // parts) <= most})


def cycles(cuts: Sequence[list[tuple[int, int]]], vectors: list[tuple[int, int]], steps: int, runs: float) -> float:
    """Cycles of tiles: `cuts` lists (size, count) of each row axis, `vectors` of columns; `runs`: runs of steps."""
    total = 0.0
    for shape in itertools.product(*cuts, vectors):
        sizes = tuple(size for size, _ in shape)
        total += math.prod(many for _, many in shape) * _tile_cycles(sizes[:-1], sizes[-1], steps, runs)
    return total


@functools.lru_cache(maxsize=4096)
def _tile_cycles(sizes: tuple[int, ...], vectors: int, steps: int, runs: float) -> float:
    *outer, width = sizes
    rows = [line * APART + place for line in range(math.prod(outer)) for place in range(width)]
    try:
        passes = tile_registers.passes(rows, vectors, steps)
    except ValueError:
        return math.inf
    blocks = -(-steps // tile_registers.STEPS)
    total: float = CALL_CYCLES + SUM_CYCLES * len(rows) * vectors
    for parts, registers in passes:
        own = len(set(registers.right or registers.right_tail))
        loads = len(parts) + (vectors if own == vectors else len(parts) * (vectors - 1) + 1)
        products = max(PRODUCT_CYCLES * len(parts) * vectors, PRODUCT_LATENCY, LOAD_CYCLES * loads)
        total += blocks * runs * (products + STALLED_SHARE * LOAD_CYCLES * loads)
    return total + (CONFIGURE_CYCLES * len(passes) if len(passes) > 1 else 0)

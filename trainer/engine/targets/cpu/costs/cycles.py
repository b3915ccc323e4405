"""The cost model that all templates share: cycles of tiles and tasks on one core, and which instructions multiply."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

from trainer.engine.targets.cpu.kernels.products import Multiplied
from trainer.engine.targets.cpu.machine import AVX512, Machine

FMA_LATENCY = 4
TILE_OVERHEAD = 40
TASK_OVERHEAD = 500
COPY_BYTES_PER_CYCLE = 12
STREAM_BYTES_PER_CYCLE = 20
SHARED_BYTES_PER_CYCLE = 8
"""Read rate of a core for memory that is not in its own second-level cache."""

STALLED_SHARE = 0.1
"""Fraction of the loads that multiply-adds do not hide (measured: 8x2 and 30x1 run a tenth below 13x2)."""

NARROW_STALLS, FAR_BYTES_PER_CYCLE = 3.5, 12
"""For machines where a vector takes two registers: cycles that stalls add to a step, times the step's own cycles; and
the read rate of a right operand that takes a quarter or more of the second-level cache. Zen 3: a step of 6 rows takes
6.6 cycles, of 5 rows 5.7, of 4 rows 4.9.
"""

VARIANT_PENALTY = 0.004
"""Cost of each further tile shape, which takes compile time, as a fraction of the kernel's time."""

SCRATCH_LIMIT = 3 << 20
WAIT = 0.25
PADDING = 16
"""Padding in elements between pixels in scratch, which moves pixels of 2^n channels to different sets of the cache."""


def pieces(total: int, tile: int) -> list[tuple[int, int]]:
    """The parts of `total` when cut into tiles of size `tile`, as pairs (size, count)."""
    parts = [(tile, total // tile), (total % tile, 1)]
    return [(size, count) for size, count in parts if size and count]


def _tile_cycles(rows: int, vectors: int, depth: float, machine: Machine) -> float:
    products, loads, stream = rows * vectors / 2, (rows + vectors) / 2, vectors * 64 / STREAM_BYTES_PER_CYCLE
    step = max(products, loads, stream, FMA_LATENCY) + STALLED_SHARE * (loads + stream)
    if machine.is_narrow:
        is_far = depth * vectors * 64 >= machine.level2_bytes / 4
        stream = vectors * 64 / (FAR_BYTES_PER_CYCLE if is_far else STREAM_BYTES_PER_CYCLE)
        step = max(2 * products, loads + vectors / 2, stream, FMA_LATENCY)
        step += NARROW_STALLS / step
    return depth * step + TILE_OVERHEAD + 1.5 * rows * vectors


WAY_BYTES, CROWDED = 4096, 0.06
"""Lines a multiple of WAY_BYTES apart share a set of the first-level cache. Each line from the last one that the set
holds adds this fraction to a tile's cycles, since lines are read again from the second level. Measured: 784x3072x768 on
8 ways, tiles of 9 rows 109 GFLOP/s, of 11 92 to 103, of 13 90, of 14 84, of 28 23; 8x1024x14x14 to 512 filters on 12
ways, tiles of 11 pixels 3.9 to 4.4 ms, of 14 4.2 to 5.6.
"""


def crowding(rows: int, distance: int, machine: Machine) -> float:
    """The factor on the cycles of a tile whose `rows` are `distance` bytes apart."""
    sharing = math.ceil(rows * math.gcd(distance, WAY_BYTES) / WAY_BYTES)
    return 1 + CROWDED * max(0, sharing - machine.level1_ways + 1)


def unrolled(machine: Machine) -> int:
    """Steps of a sum per loop iteration. Zen 3: products of 1,024 reach 84 to 88 % of the peak with one step, 92 to 94
    with four.
    """
    return 4 if machine.is_narrow else 1


def fits_registers(rows: int, vectors: int, machine: Machine, *, widened: bool = False) -> bool:
    """Whether a tile's accumulators, a row of the right operand and a broadcast fit into the registers."""
    return rows * vectors + (vectors + 1) * (2 if widened else 1) <= machine.vectors


def cut_cycles(
    cuts: Iterable[list[tuple[int, int]]], vectors: list[tuple[int, int]], depth: float, machine: Machine = AVX512
) -> float:
    """Cycles of all tiles, with rows cut along several axes."""
    shapes = [(1, 1)]
    for cut in cuts:
        shapes = [(size * part, count * many) for size, count in shapes for part, many in cut]
    cycles = sum(
        count * many * _tile_cycles(size, thick, depth, machine) for size, count in shapes for thick, many in vectors
    )
    return cycles * (1 + VARIANT_PENALTY * (len(shapes) * len(vectors) - 1))


def steps(tile: int, total: int) -> list[int]:
    """Multiples of `tile`, doubling, up to one that covers `total`."""
    sizes = [tile]
    while sizes[-1] < total:
        sizes.append(min(2 * sizes[-1], -(-total // tile) * tile))
    return sizes


def balance(tasks: int, machine: Machine) -> float:
    """Time of the slowest thread relative to the mean, averaged over thread counts that double up to the machine's. Few
    tasks also wait for a disturbed thread.
    """
    return _balance(tasks, machine.threads)


@functools.lru_cache(maxsize=65536)  # task sizes are many, task counts few
def _balance(tasks: int, most_threads: int) -> float:
    counts = [1 << power for power in range(1, most_threads.bit_length())]
    return sum(math.ceil(tasks / threads) * threads / tasks for threads in counts) / len(counts) + WAIT / tasks


def uses_tile_registers(spec: Multiplied, machine: Machine) -> bool:
    """Whether AMX multiplies: pairs if the numerics class says so, quads if the machine supports them."""
    return spec.tiled or (bool(spec.quads) and machine.int8_tiles)


def instructions(spec: Multiplied, machine: Machine) -> tuple[bool, bool]:
    """(whether one instruction multiplies elements of pairs or quads, whether the tile needs further registers)."""
    if uses_tile_registers(spec, machine):
        return False, False
    if spec.quads:
        return machine.int8, spec.quads == "signed" or not machine.int8
    return spec.pairs and machine.bfloat16, spec.pairs and not machine.bfloat16

"""The properties of a machine that the cost model uses."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from trainer.engine.targets.cpu import native

FEWEST_THREADS = 8


@dataclass(frozen=True, slots=True)
class Machine:
    """The number of vector registers of 64 bytes, a core's caches, and support for pairs, quads and tiles.

    level1_ways: lines in a set of the first-level data cache. threads: maximum number of threads for which tasks are
    balanced, a power of two of at least FEWEST_THREADS: pools with fewer threads share their kernels.
    """

    vectors: int
    level2_bytes: int = 1 << 20
    level1_ways: int = 12
    threads: int = FEWEST_THREADS
    bfloat16: bool = False
    int8: bool = False
    bfloat16_tiles: bool = False
    int8_tiles: bool = False

    @property
    def is_narrow(self) -> bool:
        """Whether a vector of 64 bytes takes several registers."""
        return self.vectors < AVX512.vectors


AVX512 = Machine(32)
NARROW = Machine(8, level2_bytes=1 << 19)
"""Sixteen 32-byte registers (AVX2) or thirty-two 16-byte ones (NEON)."""


@functools.cache
def host_machine() -> Machine:
    """Returns the machine that runs this process."""
    features = native.host_features()
    ways = _level1_ways()
    if not features.get("avx512f"):
        return replace(NARROW, level1_ways=ways)
    return replace(
        AVX512,
        level1_ways=ways,
        bfloat16=bool(features.get("avx512bf16")),
        int8=bool(features.get("avx512vnni")),
        bfloat16_tiles=bool(features.get("amx-bf16")),
        int8_tiles=bool(features.get("amx-int8")),
    )


def for_threads(machine: Machine, threads: int) -> Machine:
    """Returns the machine with a pool of `threads` threads."""
    return replace(machine, threads=max(FEWEST_THREADS, 1 << (threads - 1).bit_length()))


LEVEL1 = Path("/sys/devices/system/cpu/cpu0/cache/index0/ways_of_associativity")
"""Linux's file with this number: 8 on Zen to Zen 4 and Intel up to Skylake, 12 on Zen 5 and Intel since Ice Lake."""


def _level1_ways() -> int:
    try:
        return max(1, int(LEVEL1.read_text()))
    except (OSError, ValueError):  # another system, or a container that hides it
        return AVX512.level1_ways

"""What the cost model knows of a machine."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from trainer.engine.devices.cpu import native


@dataclass(frozen=True, slots=True)
class Machine:
    """Vector registers counted in units of 64 bytes, and cache sizes of a core."""

    vectors: int
    level1_bytes: int = 32 << 10
    level2_bytes: int = 1 << 20


AVX512 = Machine(32)
NARROW = Machine(8)
"""Sixteen 32-byte registers (AVX2) or thirty-two 16-byte ones (NEON)."""


@functools.cache
def host_machine() -> Machine:
    """The machine that runs this."""
    return AVX512 if native.host_features().get("avx512f") else NARROW

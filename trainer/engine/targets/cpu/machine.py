"""What the cost model knows of a machine."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from trainer.engine.targets.cpu import native


@dataclass(frozen=True, slots=True)
class Machine:
    """Vector registers of 64 bytes, a core's second-level cache, and what multiplies pairs, quads, and by tiles."""

    vectors: int
    level2_bytes: int = 1 << 20
    bfloat16: bool = False
    int8: bool = False
    bfloat16_tiles: bool = False
    int8_tiles: bool = False


AVX512 = Machine(32)
NARROW = Machine(8)
"""Sixteen 32-byte registers (AVX2) or thirty-two 16-byte ones (NEON)."""


@functools.cache
def host_machine() -> Machine:
    """The machine that runs this."""
    features = native.host_features()
    if not features.get("avx512f"):
        return NARROW
    return replace(
        AVX512,
        bfloat16=bool(features.get("avx512bf16")),
        int8=bool(features.get("avx512vnni")),
        bfloat16_tiles=bool(features.get("amx-bf16")),
        int8_tiles=bool(features.get("amx-int8")),
    )

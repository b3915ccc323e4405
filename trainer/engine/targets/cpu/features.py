"""The processor features that kernels may use: all of them, or those of a named lower level.

`TRAINER_CPU_FEATURES` names the level, so that one machine can run the kernels of others. Results have the same bits.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from trainer import TrainerError

FEATURES_VARIABLE = "TRAINER_CPU_FEATURES"
NATIVE = "native"

_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
"""The number of the system call on x86-64; ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux's asm/prctl.h."""


@dataclass(frozen=True, slots=True)
class Level:
    """Features by LLVM's names: those that the processor must have, and prefixes of those that are not used."""

    needs: tuple[str, ...]
    without: tuple[str, ...]


_LATER = ("amx", "avx10", "avxifma", "avxneconvert", "avxvnni")
LEVELS: dict[str, Level] = {
    NATIVE: Level((), ()),
    "avx2": Level(("avx2", "fma"), (*_LATER, "avx512", "evex512")),
    "avx512": Level(
        ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
        (*_LATER, "avx512bf16", "avx512bitalg", "avx512fp16", "avx512ifma", "avx512vb", "avx512vn", "avx512vp"),
    ),
    "neon": Level(("neon",), ("bf16", "dotprod", "fullfp16", "i8mm", "sme", "sve")),
}
"""The features of a processor of 2013 (avx2), of 2017 (avx512), and of the first with 64-bit ARM (neon)."""


def without_tiles(features: Mapping[str, bool]) -> dict[str, bool]:
    """Returns `features` without the tile registers (AMX)."""
    return {name: present and not name.startswith("amx") for name, present in features.items()}


@functools.cache
def tiles_permitted() -> bool:
    """Whether Linux keeps the 8 KiB of AMX's tiles for this process; requested once, before the pool starts any thread.

    Linux refuses if a thread's alternate signal stack is too small for them. On other systems the result is False.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(_ARCH_PRCTL), ctypes.c_long(_REQUEST), ctypes.c_long(_TILE_DATA))) == 0


def limited(features: Mapping[str, bool], level: str) -> dict[str, bool]:
    """Returns `features` (LLVM's name -> whether the processor has it) limited to `level`; "" allows all of them.

    Raises:
        TrainerError: the level is unknown, or the processor lacks a feature that it needs.
    """
    level = level.strip() or NATIVE
    fitting = [name for name, each in LEVELS.items() if all(features.get(need) for need in each.needs)]
    if level not in fitting:
        known = LEVELS.get(level)
        lacks = [] if known is None else [need for need in known.needs if not features.get(need)]
        raise TrainerError(
            f"{FEATURES_VARIABLE} names features that can't be used",
            found=f"{level!r}" + (f"; this processor has no {', no '.join(lacks)}" if lacks else ""),
            expected=" or ".join(fitting),
            hint=f"Without {FEATURES_VARIABLE} all features of the processor are used.",
        )
    without = LEVELS[level].without
    return {name: present and not name.startswith(without) for name, present in features.items()}

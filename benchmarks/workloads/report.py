"""How near a step comes to the processor's peak, and where its time goes."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from trainer import engine
from trainer.engine.kernels.contraction import MatmulSpec

STEPS = 3


def describe(workload: Any) -> str:
    """Two lines about a workload that has run before."""
    program = workload.traced.programs[-1]
    operations = 2e-9 * sum(multiply_adds(launch.source.key) for launch in program.launches)
    profile = engine.profile(workload, steps=STEPS, warm_up=0)
    rate, peak = operations / profile.seconds, profile.peaks.float32 / 1e9
    spent = Counter({"Python": profile.python})
    for row in profile.rows:
        spent[row.kernel.split()[0]] += row.seconds
    shares = [f"{name} {seconds / profile.seconds:.0%}" for name, seconds in spent.most_common(9)]
    return (
        f"  {len(program.launches)} launches, arena {program.memory.size / 1e6:.0f} MB, contractions of "
        f"{operations:.3g} GFLOP: {rate:.0f} of {peak:.0f} GFLOP/s, {rate / peak:.0%} of the float32 peak\n"
        f"  {', '.join(shares)}"
    )


def multiply_adds(key: Any) -> int:
    """The multiply-adds that a kernel stands for, from what it was rendered from; 0 for all but contractions."""
    spec = key[0] if isinstance(key, tuple) else key
    if isinstance(spec, MatmulSpec):
        return spec.rows * spec.columns * spec.depth * math.prod(spec.batch)
    return int(getattr(spec, "multiply_adds", 0))

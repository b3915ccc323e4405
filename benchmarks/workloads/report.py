"""Reports a step's fraction of the processor's peak, and a breakdown of its time."""

from __future__ import annotations

from collections import Counter
from typing import Any

from trainer import engine

STEPS = 3


def describe(workload: Any) -> str:
    """Describes, in two lines, a workload that has run before."""
    program = workload.traced.programs[-1]
    profile = engine.profile(workload, steps=STEPS, warm_up=0)
    operations = 1e-9 * sum(row.operations or 0 for row in profile.rows)
    rate, peak = operations / profile.seconds, profile.peaks.float32 / 1e9
    spent = Counter({"Python": profile.python})
    for row in profile.rows:
        spent[row.kernel.split()[0]] += row.seconds
    shares = [f"{name} {seconds / profile.seconds:.0%}" for name, seconds in spent.most_common(9)]
    return (
        f"  {len(program.launches)} launches, arena {program.memory.size / 1e6:.0f} MB, "
        f"{operations:.3g} GFLOP: {rate:.0f} of {peak:.0f} GFLOP/s, {rate / peak:.0%} of the float32 peak\n"
        f"  {', '.join(shares)}"
    )

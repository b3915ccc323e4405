"""Cost of a checkpoint of 100 million parameters every 50 steps: the training loop's wait relative to the copy alone.

python benchmarks/checkpoints.py [stall_vs_copy writer_cpu_s] [--json] [--rounds N]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness import Figure, checkout_environment, run_figures

SCRIPT = Path(__file__).parent / "workloads" / "checkpointed.py"
STEPS = 150


def costs() -> dict[str, float]:
    """Returns the medians over a run's checkpoints, from their events."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--steps", str(STEPS)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=checkout_environment(),
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    checkpoints = [line for line in told if "stall_ms" in line]
    return {name: statistics.median(one[name] for one in checkpoints) for name in ("stall_ms", "copy_ms", "cpu_s")}


def of_one_run(*names: str) -> list[Callable[[], float]]:
    """Returns functions that measure these values, all from the same runs: each run serves every function once."""
    waiting: dict[str, list[float]] = {name: [] for name in names}

    def measure(name: str) -> float:
        if not waiting[name]:
            found = costs()
            for each in names:
                waiting[each].append(found[each])
        return waiting[name].pop(0)

    return [lambda name=name: measure(name) for name in names]  # type: ignore[misc]


def main() -> int:
    stall, copy = of_one_run("stall_ms", "copy_ms")
    (processor,) = of_one_run("cpu_s")
    return run_figures(
        [
            Figure("stall_vs_copy", stall, lambda _: copy(), bar=1 / 1.05, needs_peer_python=False, rounds=3),
            Figure("writer_cpu_s", processor, bar=2.0, unit="s", rounds=3),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

"""Background tuning compared with none and with full tuning up front: loss of the untuned defaults, cost, benefit.

python benchmarks/tuning.py [defaults_vs_upfront 200_steps_background_vs_off …] [--json] [--rounds N]

Figures of ResNet-50 and pix2pix take minutes and are measured only if they are named.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import Companion, Figure, checkout_environment, run_figures

SCRIPT = Path(__file__).parent / "workloads" / "tuned.py"
STEPS = {"conv_bn_relu_conv": 5, "mlp": 50, "resnet50": 1, "pix2pix": 1}


def ask(workload: str, mode: str, measure: str, *options: str, **environment: str) -> float:
    """Returns one measurement by a separate process."""
    command = (sys.executable, str(SCRIPT), workload, mode, measure, *options)
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=checkout_environment(**environment)
    )
    return float(done.stdout)


def once(workload: str, mode: str, measure: str, *options: str) -> Callable[[], float]:
    """Returns a function that measures in a new process at each call."""
    return lambda: ask(workload, mode, measure, *options)


def second_run(workload: str) -> Callable[[], float]:
    """Measures the tuning left to the first step of a second run, after one that began with nothing and decided all."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder:
            options = ("left_to_do", "--cache", folder)
            ask(workload, "upfront", *options, TRAINER_CACHE_DIR=folder)
            return ask(workload, "background", *options, TRAINER_CACHE_DIR=folder)

    return run


def step(workload: str, mode: str) -> Companion:
    """Returns a process that measures a step in milliseconds, once everything is decided."""
    options = ("--steps", str(STEPS[workload]), "--share", "1")
    return Companion(sys.executable, str(SCRIPT), workload, mode, "step_ms", *options)


def against(name: str, ours: Callable[[], float], peer: Callable[[], float], most: float, rounds: int = 7) -> Figure:
    """Returns a figure with an upper bound relative to another measurement of ours."""
    return Figure(name, ours, lambda _: peer(), bar=1 / most, needs_peer_python=False, rounds=rounds)


def figures(workload: str, suffix: str = "", rounds: int = 7) -> list[Figure]:
    """All figures of a workload."""
    upfront = step(workload, "upfront")
    few = min(rounds, 5)

    def pair(name: str, measure: str, most: float, rounds: int = few) -> Figure:
        modes = [once(workload, mode, measure, "--steps", "200") for mode in ("background", "off")]
        return against(name + suffix, modes[0], modes[1], most, rounds)

    pause = once(workload, "background", "longest_pause_ms", "--share", "1")
    return [
        against(f"defaults_vs_upfront{suffix}", step(workload, "off"), upfront, 1.15, rounds),
        against(f"after_done_vs_upfront{suffix}", step(workload, "background"), upfront, 1.05, rounds),
        pair("first_step_background_vs_off", "first_step_ms", 1.05),
        pair("200_steps_background_vs_off", "run_ms", 1.02, few if rounds > 3 else 1),
        Figure(f"longest_pause_ms{suffix}", pause, bar=5.0, rounds=min(few, 3)),
        Figure(
            f"second_run_tuned{suffix}",
            second_run(workload),
            bar=0.5,
            unit="kernels compiled or undecided",
            rounds=1,
            is_timing=False,
        ),
    ]


ALWAYS = [*figures("conv_bn_relu_conv"), *figures("mlp", "_mlp")]
ON_REQUEST = [*figures("resnet50", "_resnet50", 3), *figures("pix2pix", "_pix2pix", 3)]


def wanted(arguments: Sequence[str]) -> list[Figure]:
    """Returns the figures of a command line; those that take minutes only if it names them."""
    return [*ALWAYS, *(figure for figure in ON_REQUEST if figure.name in arguments)]


if __name__ == "__main__":
    raise SystemExit(run_figures(wanted(sys.argv[1:])))

"""Sweeps: killed and resumed, their cost per trial, and TPE compared with random draws.

python benchmarks/sweeps.py [NAME …] [--json] [--trials N] [--seeds N]

Needs the extra `sweep`, and `ray` for the figures with Ray.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import Figure, run_figures

sys.path.insert(0, str(Path(__file__).parent / "workloads"))

from killed_sweeps import KilledSweep

OPTIONS = argparse.ArgumentParser(add_help=False)
OPTIONS.add_argument("--trials", type=int, default=30, help="trials of a killed sweep (default: 30)")
OPTIONS.add_argument("--seeds", type=int, default=20, help="seeds of the comparison with random draws (default: 20)")
CHOSEN, REST = OPTIONS.parse_known_args()
KILLS = 3
TIMED_TRIALS = 6
DRAWS = 40
"""Trials of each search on the surface."""
LEAST_WINS = 0.75
"""Minimum fraction of seeds that TPE wins; 15 or more of 20 have a probability of 2 % by chance alone."""


def killed(place: str = "local") -> float:
    """Returns the number of correct trials after the sweep's command was killed three times."""
    with tempfile.TemporaryDirectory(prefix="trainer-sweeps-") as folder:
        sweep = KilledSweep(Path(folder), CHOSEN.trials, place=place)
        sweep.run(KILLS)
        return sweep.sound_trials()


@contextmanager
def local_ray() -> Iterator[str]:
    """Runs a Ray cluster of two processors on this machine; yields the value of `--on`."""
    import ray

    context = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        yield f"ray:{context.address_info['gcs_address']}"
    finally:
        ray.shutdown()


def killed_on_ray() -> float:
    with local_ray() as place:
        return killed(place)


def overhead(place: str = "local") -> float:
    """Median seconds from the end of a run to the first event of the next one, minus the startup time of any run."""
    with tempfile.TemporaryDirectory(prefix="trainer-sweeps-") as folder:
        sweep = KilledSweep(Path(folder), TIMED_TRIALS, place=place, parallel=1)
        sweep.run(0)
        gaps, alone = sweep.overheads(), [sweep.start_seconds()]
        print(f"gaps {gaps}, alone {alone}", file=sys.stderr, flush=True)
        return statistics.median(gaps) - statistics.median(alone)


def overhead_on_ray() -> float:
    with local_ray() as place:
        return overhead(place)


def surface(of: Mapping[str, Any]) -> float:
    """A valley in five parameters, one of them on a logarithmic scale and one a choice."""
    near = 4 * (of["a"] - 0.3) ** 2 + 4 * (of["b"] - 0.7) ** 2 + (of["c"] - 0.5) ** 2 / 2
    return float((math.log10(of["rate"]) + 2.5) ** 2 + near + 0.3 * (of["batch"] != 64))


def best_of(method: Any, seed: int) -> float:
    """The smallest value that a search of DRAWS trials finds."""
    from trainer.cli.sweep.search import Search
    from trainer.configs import ParameterConfig, SweepConfig
    from trainer.rundir.sweeps import SweepPaths

    unit = ParameterConfig(low=0.0, high=1.0)
    rate, batch = ParameterConfig(low=1e-5, high=1.0, log=True), ParameterConfig(values=(16, 32, 64, 128))
    parameters = {"a": unit, "b": unit, "c": unit, "rate": rate, "batch": batch}
    with tempfile.TemporaryDirectory() as folder:
        section = SweepConfig(parameters=parameters, method=method, trials=DRAWS)
        search = Search(SweepPaths(Path(folder)), section, mode="min", seed=seed)
        for _ in range(DRAWS):
            trial = search.ask()
            search.complete(trial.number, surface(trial.parameters))
        return min(trial.value for trial in search.trials if trial.value is not None)


def tpe_wins() -> float:
    """The number of seeds with which TPE finds a better value than random draws."""
    found = [(best_of("tpe", seed), best_of("random", seed)) for seed in range(CHOSEN.seeds)]
    medians = [statistics.median(values) for values in zip(*found, strict=True)]
    print(f"medians: TPE {medians[0]:.3f}, random draws {medians[1]:.3f}", file=sys.stderr, flush=True)
    return sum(tpe < drawn for tpe, drawn in found)


FIGURES = [
    Figure("kills", killed, bar=CHOSEN.trials, better="higher", unit="trials", rounds=1, is_timing=False),
    Figure("kills_on_ray", killed_on_ray, bar=CHOSEN.trials, better="higher", unit="trials", rounds=1, is_timing=False),
    Figure("overhead", overhead, bar=0.5, unit="s", rounds=1),
    Figure("overhead_on_ray", overhead_on_ray, bar=0.5, unit="s", rounds=1),
    Figure("tpe", tpe_wins, bar=math.ceil(LEAST_WINS * CHOSEN.seeds), better="higher", unit="seeds", rounds=1,
           is_timing=False),
]  # fmt: skip

if __name__ == "__main__":
    sys.exit(run_figures(FIGURES, REST))

"""Tests the automatic choice of batch sizes under a memory limit, and of learning rates.

python benchmarks/finders.py [NAME …] [--json] [--seeds N]

batch_size  recipes with `data.batch_size: auto` in a control group with a memory limit (Linux; needs the rights to
            make one): measured, trained for some steps, validated and saved, without running out of memory
find_lr     recipes trained with the learning rate that `trainer find-lr` suggests, relative to their own rate: STEPS
            steps each, with the recipe's schedule over this horizon
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Figure, checkout_environment, run_figures

sys.path.insert(0, str(Path(__file__).parent / "workloads"))

from limited import MemoryLimit

from trainer import configs
from trainer.rundir import RunPaths, open_run

OPTIONS = argparse.ArgumentParser(add_help=False)
OPTIONS.add_argument("--seeds", type=int, default=3, help="trainings with each learning rate (default: 3)")
CHOSEN, REST = OPTIONS.parse_known_args()
TRAINER = [sys.executable, "-P", "-m", "trainer.cli"]
LIMITS = {"digits": 500, "names": 500, "forecast": 450, "clothes": 1600, "nuclei": 2500}
"""By recipe: memory of the control group in MB, for batches of tens to thousands of items."""
STEPS = {"digits": 250, "names": 250, "adding": 400, "forecast": 250, "clothes": 96}
"""By recipe: the number of steps to compare learning rates."""


def found_batch_sizes() -> float:
    """Returns how many recipes were measured and trained without running out of memory."""
    return sum(_trains_within(name, limit * 1_000_000) for name, limit in LIMITS.items())


def _trains_within(recipe: str, limit: int) -> bool:
    words = [
        "run", recipe, "data.batch_size=auto", "train.epochs=null", "train.steps=6", "validate.every_steps=3",
        "--run-dir", "run", "--plain",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="trainer-finders-") as folder, MemoryLimit(limit) as group:
        done = group.run([*TRAINER, *words], Path(folder))
        problem = done.stderr.strip()[-1000:] if done.returncode else ""
        size = (
            "none"
            if problem
            else configs.load_resolved(RunPaths(Path(folder) / "run").config(1)).config.data.batch_size
        )
        kills = group.kills
    print(f"{recipe} in {limit / 1e6:.0f} MB: batch size {size}, {kills} killed {problem}", file=sys.stderr, flush=True)
    return not problem and not kills


def found_learning_rates() -> float:
    """Returns how many recipes reach, with the suggestion, at most their own loss plus its standard error."""
    return sum(map(_is_well_found, STEPS))


def _is_well_found(recipe: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="trainer-finders-") as folder:
        done = subprocess.run(
            [*TRAINER, "find-lr", recipe, *_horizon(recipe), "--json"], cwd=folder, check=True,
            env=checkout_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        suggestion = json.loads(done.stdout)["suggestion"]
        optimizer = configs.load(recipe).config.optimizer
        assert optimizer is not None
        own, found = (
            [_loss(recipe, rate, seed, Path(folder)) for seed in range(CHOSEN.seeds)]
            for rate in (optimizer.learning_rate, suggestion)
        )
    if not all(map(math.isfinite, own)):
        return False
    error = statistics.stdev(own) / math.sqrt(len(own))
    is_reached = statistics.mean(found) <= statistics.mean(own) + error
    print(
        f"{recipe}, {STEPS[recipe]} steps: {optimizer.learning_rate:.2g} has a loss of {statistics.mean(own):.4g} ± "
        f"{error:.2g}, the suggestion {suggestion:.2g} has {statistics.mean(found):.4g}: "
        f"{'reached' if is_reached else 'missed'}", file=sys.stderr, flush=True,
    )  # fmt: skip
    return is_reached


def _horizon(recipe: str) -> list[str]:
    return [f"train.steps={STEPS[recipe]}", "train.epochs=null"]


def _loss(recipe: str, rate: float, seed: int, folder: Path) -> float:
    """Returns the validation loss after the last step; infinity if the training fails."""
    run = folder / f"{rate}-{seed}"
    words = [
        f"optimizer.learning_rate={rate}", f"seed={seed}", *_horizon(recipe),
        f"validate={{every_steps: {STEPS[recipe]}, every_epochs: null, test: false}}",
    ]  # fmt: skip
    done = subprocess.run(
        [*TRAINER, "run", recipe, *words, "--run-dir", str(run), "--plain"], cwd=folder, check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=checkout_environment(),
    )  # fmt: skip
    if done.returncode:
        print(f"{recipe}, rate {rate:.2g}, seed {seed}: {done.stderr.decode()[-1000:]}", file=sys.stderr, flush=True)
    return math.inf if done.returncode else float(open_run(run).metrics["valid/loss"].value[-1])


FIGURES = [
    Figure("batch_size", found_batch_sizes, bar=len(LIMITS), better="higher", unit="recipes", rounds=1,
           is_timing=False),
    Figure("find_lr", found_learning_rates, bar=len(STEPS), better="higher", unit="recipes", rounds=1,
           is_timing=False),
]  # fmt: skip

if __name__ == "__main__":
    sys.exit(run_figures(FIGURES, REST))

"""Numerical agreement with PyTorch: optimizers over 100 steps, schedules over 1,000, and recipes step by step.

python benchmarks/parity.py [adamw cosine digits_float64 …] [--json] --peer-python PATH
                             [--quality-epochs N] [--quality-filters N]

`recipe_parity.py` describes the figures of recipes. The figure of an optimizer or a schedule is its largest relative
difference from PyTorch's of the same name, in float64, in units of 10^-12. Muon is excluded, since PyTorch
orthogonalizes in bfloat16. `tests/learner` compares all optimizers and schedules with formulas in plain NumPy.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import recipe_parity
from harness import Figure, largest, run_figures

from trainer import engine
from trainer.configs import config_from
from trainer.engine import nn
from trainer.learner import LearningRate, Plan
from trainer.learner.optimizers import optimizer_from

STEPS, SCHEDULE_STEPS, RATE = 100, 1000, 0.02
SHAPES = {"matrix": (6, 4), "kernel": (3, 2, 3, 3), "vector": (5,), "scalar": ()}
UNIT, MOST = 1e-12, 1e-10
PEER = Path(__file__).parent / "workloads" / "torch_parity.py"

# name -> (our section without name and rate, PyTorch's class, its settings)
OPTIMIZERS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "sgd": ({"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, "SGD",
            {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "adam": ({"betas": (0.8, 0.99), "weight_decay": 0.1}, "Adam", {"betas": (0.8, 0.99), "weight_decay": 0.1}),
    "adamw": ({"weight_decay": 0.1}, "AdamW", {"weight_decay": 0.1}),
    "rmsprop": ({"alpha": 0.9, "epsilon": 1e-3, "momentum": 0.5, "centered": True, "weight_decay": 0.1}, "RMSprop",
                {"alpha": 0.9, "eps": 1e-3, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    "adagrad": ({"learning_rate_decay": 0.01, "initial_sum": 0.5, "weight_decay": 0.1}, "Adagrad",
                {"lr_decay": 0.01, "initial_accumulator_value": 0.5, "weight_decay": 0.1}),
}  # fmt: skip

# name -> (our section, PyTorch's class, its settings)
SCHEDULES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "step": ({"name": "step", "by": "step", "step_size": 150, "gamma": 0.3}, "StepLR",
             {"step_size": 150, "gamma": 0.3}),
    "milestones": ({"name": "step", "by": "step", "milestones": [20, 500, 900], "gamma": 0.5}, "MultiStepLR",
                   {"milestones": [20, 500, 900], "gamma": 0.5}),
    "exponential": ({"name": "exponential", "gamma": 0.995}, "ExponentialLR", {"gamma": 0.995}),
    "linear": ({"name": "linear", "start_factor": 0.25, "final_factor": 1.0, "duration": 300}, "LinearLR",
               {"start_factor": 0.25, "total_iters": 300}),
    "polynomial": ({"name": "polynomial", "power": 2.0}, "PolynomialLR",
                   {"total_iters": SCHEDULE_STEPS, "power": 2.0}),
    "cosine": ({"name": "cosine", "final_factor": 0.1}, "CosineAnnealingLR",
               {"T_max": SCHEDULE_STEPS, "eta_min": 0.1 * RATE}),
    "cosine_restarts": ({"name": "cosine", "period": 50, "period_factor": 2, "final_factor": 0.1},
                        "CosineAnnealingWarmRestarts", {"T_0": 50, "T_mult": 2, "eta_min": 0.1 * RATE}),
    "one_cycle": ({"name": "one_cycle"}, "OneCycleLR", {"max_lr": RATE, "total_steps": SCHEDULE_STEPS}),
    "triangular": ({"name": "triangular", "lowest_factor": 0.2, "rise": 30, "fall": 20}, "CyclicLR",
                   {"base_lr": 0.2 * RATE, "max_lr": RATE, "step_size_up": 30, "step_size_down": 20}),
}  # fmt: skip


@functools.cache
def numbers() -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    """Returns the initial parameters, and their targets at each step."""
    generator = np.random.default_rng(0)
    draws = [{name: generator.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(STEPS + 1)]
    return draws[0], draws[1:]


@functools.cache
def torch_numbers(python: str) -> dict[str, Any]:
    """Returns the results of PyTorch for all optimizers and schedules."""
    start, targets = numbers()
    order = {
        "optimizers": {name: {"class": kind, "settings": settings} for name, (_, kind, settings) in OPTIMIZERS.items()},
        "schedules": {name: {"class": kind, "settings": settings} for name, (_, kind, settings) in SCHEDULES.items()},
        "start": {name: value.tolist() for name, value in start.items()},
        "targets": [{name: value.tolist() for name, value in target.items()} for target in targets],
        "rate": RATE,
        "schedule_steps": SCHEDULE_STEPS,
    }
    done = subprocess.run([python, str(PEER)], input=json.dumps(order), capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def optimizer_difference(name: str, python: str) -> float:
    """The largest relative difference of any parameter after any step, in units of UNIT; NaN if a number is NaN."""
    start, targets = numbers()
    section = {"name": name, "learning_rate": RATE, **OPTIMIZERS[name][0]}
    config = config_from({"optimizer": section, "train": {"steps": STEPS}})
    assert config.optimizer is not None
    parameters = {key: nn.Parameter(value, key, engine.float64) for key, value in start.items()}
    optimizer = optimizer_from(config.optimizer, parameters, config.schedule, Plan(STEPS, STEPS))

    def step(pulled_to: dict[str, engine.Tensor]) -> None:
        loss = engine.zeros((), dtype=engine.float64)
        for key, parameter in parameters.items():
            loss = loss + engine.sum((parameter - pulled_to[key]) ** 2) * 0.5
        optimizer.minimize(loss)

    traced, worst = engine.trace(step), 0.0
    for target, theirs in zip(targets, torch_numbers(python)["optimizers"][name], strict=True):
        traced(target)
        for key, parameter in parameters.items():
            worst = largest((worst, relative(parameter.numpy().ravel(), np.array(theirs[key]))))
    return worst / UNIT


def schedule_difference(name: str, python: str) -> float:
    """The largest relative difference of the learning rate at any step, in units of UNIT."""
    section = {"optimizer": {"name": "sgd", "learning_rate": RATE}, "schedule": SCHEDULES[name][0]}
    config = config_from({**section, "train": {"steps": SCHEDULE_STEPS}})
    rate = LearningRate(RATE, config.schedule, total_steps=SCHEDULE_STEPS)
    ours = np.array([rate.at(step) for step in range(SCHEDULE_STEPS)])
    return relative(ours, np.array(torch_numbers(python)["schedules"][name])) / UNIT


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference relative to PyTorch's number, or to a millionth of its largest number if that is more.

    The result is NaN or infinite if a number on either side is.
    """
    return float((np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-6 * np.abs(theirs).max())).max())


def figures(python: str) -> list[Figure]:
    """A figure for each optimizer and schedule."""
    kinds = ((OPTIMIZERS, optimizer_difference), (SCHEDULES, schedule_difference))
    return [
        Figure(name, ours=functools.partial(difference, name, python), bar=MOST / UNIT, unit="1e-12", rounds=1,
               is_timing=False)
        for table, difference in kinds
        for name in table
    ]  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--quality-epochs", type=int, default=recipe_parity.QUALITY_EPOCHS)
    parser.add_argument("--quality-filters", type=int)
    own, others = parser.parse_known_args()
    recipes = recipe_parity.figures(
        own.peer_python, quality_epochs=own.quality_epochs, quality_filters=own.quality_filters
    )
    words = [*others, f"--peer-python={own.peer_python}"]
    raise SystemExit(run_figures([*figures(own.peer_python), *recipes], words))

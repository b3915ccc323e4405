"""Prints a digest of the results of training steps: SHA-256 of every loss, and of all final parameters and buffers.

Usage: digest.py WORKLOAD [--bfloat16] [--numerics exact|fast] [--steps N]

WORKLOAD is the recipe `digits` or a workload of `ours.py`. PYTHONPATH contains the checkout and its
`benchmarks/workloads`. The script also runs in older checkouts, so it uses only public names.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import trainer
from trainer import engine
from trainer.engine import nn


def digits(steps: int) -> tuple[list[float], list[np.ndarray]]:
    """Returns the losses and the final states of the recipe's first steps."""
    overrides = {
        "seed": 0,
        "data.workers": 0,
        "train.epochs": None,
        "train.steps": steps,
        "train.log_every_steps": 1,
        "schedule.warmup_steps": steps // 2,
    }
    result: Any = trainer.run("digits", keep=False, show=False, **overrides)
    return list(result.history["train/loss"].value), list(result.task.network.state_dict().values())


def traced(name: str, precision: str, numerics: str, steps: int) -> tuple[list[float], list[np.ndarray]]:
    """Returns the losses and the final states of a workload in the checkout's `ours.py`."""
    import ours

    engine.set_default_device(ours.CpuDevice(numerics=numerics))
    workload = ours.WORKLOADS[name]()
    with engine.autocast(precision):
        losses = [float(workload.traced(*workload.arguments).item()) for _ in range(steps)]
    modules = networks(inspect.unwrap(workload.traced))
    return losses, [values for module in modules for values in module.state_dict().values()]


def networks(step: Callable[..., Any]) -> list[nn.Module]:
    """Returns each module that a step, or a function in it, refers to, once."""
    found: dict[int, nn.Module] = {}
    for value in inspect.getclosurevars(step).nonlocals.values():
        inner = networks(value) if inspect.isfunction(value) else [value] if isinstance(value, nn.Module) else []
        found.update((id(module), module) for module in inner)
    return list(found.values())


def digest(losses: Sequence[float], states: Iterable[np.ndarray]) -> str:
    """Returns the digest, which does not depend on the names or the order of the states.

    Raises:
        ValueError: a number is not finite, or there are no losses or no states.
    """
    arrays = list(states)
    if not len(losses) or not arrays:
        raise ValueError(f"{len(losses)} losses and {len(arrays)} states")
    if not all(np.isfinite(array).all() for array in (np.asarray(losses), *arrays)):
        raise ValueError("a loss or a state is not finite")
    parts = sorted(f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}" for array in arrays)
    return hashlib.sha256("\n".join([*map(float.hex, losses), *parts]).encode()).hexdigest()


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the arguments of a command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--numerics", choices=("exact", "fast"), default="exact")
    parser.add_argument("--steps", type=int, default=20)
    return parser.parse_args(words)


def main() -> None:
    arguments = parsed()
    if arguments.workload == "digits":
        computed = digits(arguments.steps)
    else:
        precision = "bfloat16" if arguments.bfloat16 else "float32"
        computed = traced(arguments.workload, precision, arguments.numerics, arguments.steps)
    if len(computed[0]) != arguments.steps:
        raise ValueError(f"{len(computed[0])} losses of {arguments.steps} steps")
    print(digest(*computed))


if __name__ == "__main__":
    main()

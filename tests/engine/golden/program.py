"""What a listed program is: a function that runs on a device, and the classes and the machine it is compiled for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import State
from trainer.engine.targets.cpu.lowering.expansion import Bfloat16, Numerics
from trainer.engine.targets.cpu.machine import AVX512, Machine
from trainer.engine.tracing.pytree import flatten

Run = Callable[[Any], Iterable[np.ndarray]]


@dataclass(frozen=True)
class Program:
    """A listed program.

    `run` computes on a device and returns the results and the states that it changed, in a fixed order. Fixed seeds
    make it the same each time. Its first traced step, or with `is_traced=False` its first evaluation, is the graph that
    is listed. `machine` is what parameters are chosen for. `is_run=False` marks programs that are only lowered.
    """

    name: str
    run: Run
    numerics: Numerics = "exact"
    bfloat16: Bfloat16 = "pairs"
    machine: Machine = AVX512
    is_run: bool = True
    is_traced: bool = True


@contextmanager
def on(device: Any) -> Iterator[None]:
    """Compute on `device` inside the `with` block."""
    with engine.device(device):
        yield


def arrays_of(values: Any) -> list[np.ndarray]:
    """The values of all tensors in nested containers."""
    return [np.array(value.numpy()) for _, value in flatten(values)]


def traced(function: Callable[..., Any], *arguments: Any, calls: int = 1) -> Run:
    """The run of a traced function without states on `arguments`."""

    def run(device: Any) -> list[np.ndarray]:
        with on(device):
            step = engine.trace(function)
            return [array for _ in range(calls) for array in arrays_of(step(*arguments))]

    return run


def eager(function: Callable[..., Any], *arguments: np.ndarray) -> Run:
    """The run of an untraced function: its results are evaluated together."""

    def run(device: Any) -> list[np.ndarray]:
        with on(device):
            results = [value for _, value in flatten(function(*map(engine.asarray, arguments)))]
            engine.evaluate(*results)
            return arrays_of(results)

    return run


def stepped(build: Callable[[], tuple[Callable[..., Any], dict[str, State]]], *arguments: Any, calls: int = 2) -> Run:
    """The run of a step that changes states: `build` makes both again."""

    def run(device: Any) -> list[np.ndarray]:
        with on(device):
            function, states = build()
            step = engine.trace(function)
            found = [array for _ in range(calls) for array in arrays_of(step(*arguments))]
            return [*found, *(np.array(state.numpy()) for state in states.values())]

    return run


def values(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 values."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def integers(high: int, *shape: int, seed: int = 0) -> np.ndarray:
    """int32 values from 0 to `high` - 1."""
    return np.random.default_rng(seed).integers(0, high, shape, dtype=np.int32)

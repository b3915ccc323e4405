"""Listed programs: networks and graphs drawn at random from fixed seeds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.engine.golden.program import Program, Run, on, stepped
from tests.engine.networks.any_network import train
from trainer import engine
from trainer.engine import State, Tensor
from trainer.engine.targets.cpu.machine import NARROW

NETWORKS, GRAPHS = 10, 14
LARGEST = 40_000

UNARY: tuple[Callable[[Tensor], Tensor], ...] = (
    engine.tanh, engine.abs, engine.square, engine.logistic, engine.negative, lambda x: engine.maximum(x, 0.0),
    lambda x: x * 0.5 + 1, lambda x: engine.where(x > 0, x, x * 0.2), lambda x: engine.exp(engine.clip(x, -2, 2)),
    lambda x: engine.round(x).astype(engine.int32).astype(engine.float32),
)  # fmt: skip
BINARY: tuple[Callable[[Any, Any], Tensor], ...] = (
    engine.add, engine.subtract, engine.maximum, lambda a, b: engine.multiply(a, b) * 0.5,
)  # fmt: skip
REDUCTIONS: tuple[Callable[..., Tensor], ...] = (engine.sum, engine.max, engine.mean, engine.min)


def network(seed: int) -> Run:
    """The run of a network's training: see `tests.engine.networks.any_network`."""

    def run(device: Any) -> list[np.ndarray]:
        _, returned, states = train(seed, device, (engine.float32, engine.float64)[seed % 5 == 4])
        return [*returned, *states.values()]

    return run


def moved(draw: random.Random, x: Tensor) -> Tensor:
    """One movement of `x`."""
    axis = draw.randrange(x.ndim)
    kind = draw.choice(("permute", "flip", "slice", "pad", "concat", "join axes"))
    if kind == "permute":
        return engine.permute_dims(x, draw.sample(range(x.ndim), x.ndim))
    if kind == "flip":
        return engine.flip(x, axis=axis)
    if kind == "slice" and x.shape[axis] > 2:
        keys: list[Any] = [slice(None)] * x.ndim
        keys[axis] = slice(1, None, draw.choice((1, 2)))
        return x[tuple(keys)]
    if kind == "pad":
        return engine.pad(x, [(draw.randrange(2), draw.randrange(3)) for _ in x.shape], value=0.25)
    if kind == "concat":
        return engine.concat([x, engine.tanh(x)], axis=axis)
    return engine.reshape(x, (-1, x.shape[-1]) if x.ndim > 2 else (*x.shape, 1))


def grown(draw: random.Random, known: list[Tensor]) -> Tensor:
    """One more value, of recent ones."""
    x = draw.choice(known[-7:])
    kind = draw.choice(("unary", "unary", "binary", "binary", "move", "move", "reduce", "scan", "product", "order"))
    axis = draw.randrange(x.ndim)
    if kind == "binary":
        return draw.choice(BINARY)(x, draw.choice([y for y in known if y.shape == x.shape]))
    if kind == "move":
        return moved(draw, x)
    if kind == "reduce":
        reduced = draw.choice(REDUCTIONS)(x, axis=axis, keepdims=True)
        return x - reduced if draw.random() < 0.6 else reduced
    if kind == "scan":
        return engine.cumulative_sum(x, axis=axis) * 0.1
    if kind == "product" and x.ndim > 1:
        return engine.tanh(engine.matmul(x, engine.matrix_transpose(x)) * 0.05)
    if kind == "order":
        indices = np.array([draw.randrange(x.shape[axis]) for _ in range(4)], np.int32)
        return engine.sort(x, axis=axis) if draw.random() < 0.4 else engine.take(x, engine.asarray(indices), axis=axis)
    return draw.choice(UNARY)(x)


def graph(seed: int) -> Run:
    """The run of a random graph with two states that may take any value of their shape, and some gradients."""
    numbers = np.random.default_rng(seed)
    shape = tuple(int(extent) for extent in numbers.integers(2, 24, numbers.integers(1, 4)))
    x, *initial = numbers.standard_normal((3, *shape), dtype=np.float32)

    def build() -> tuple[Callable[[Tensor], Any], dict[str, State]]:
        first, second = (State(values, f"state {number}") for number, values in enumerate(initial))

        def step(given: Tensor) -> list[Tensor]:
            draw = random.Random(seed)
            known = [given, first + given, second * given]
            for _ in range(draw.randint(6, 36)):
                new = grown(draw, known)
                if new.size <= LARGEST and 0 < new.ndim <= 4:
                    known.append(new)
            results = draw.sample(known, min(len(known), draw.randint(1, 4)))
            if draw.random() < 0.6:
                results += engine.gradients(engine.mean(known[-1]), [given])
            fitting = [value for value in known if value.shape == shape]
            assigned = [draw.choice(fitting) for _ in range(2)]
            first.assign(assigned[0])
            if draw.random() < 0.7:
                second.assign(assigned[1])
            return results

        return step, {"first": first, "second": second}

    def run(device: Any) -> list[np.ndarray]:
        with on(device):
            return list(stepped(build, x)(device))

    return run


PROGRAMS = [
    *(
        Program(
            f"random network {seed}",
            network(seed),
            numerics="fast" if seed % 5 == 3 else "exact",
            machine=NARROW if seed % 3 == 2 else Program.machine,
        )
        for seed in range(NETWORKS)
    ),
    *(Program(f"random graph {seed}", graph(seed)) for seed in range(GRAPHS)),
]

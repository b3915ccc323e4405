"""Random programs: derivatives by any value in them equal central differences of the same program in NumPy,
whatever is created equal, read, dropped or assigned to on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.engine import evaluation, history

SHAPE = (3,)
STEP, LARGE_STEP = 1e-6, 1e-4


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "tanh": (engine.tanh, np.tanh),
    "sin": (engine.sin, np.sin),
    "logistic": (engine.logistic, lambda x: 1 / (1 + np.exp(-x))),
    "square": (lambda x: x**2 * 0.25, lambda x: x * x * 0.25),
    "twice": (lambda x: x * 2.0, lambda x: x * 2.0),
    "negative": (lambda x: -x, np.negative),
    "itself": (engine.positive, lambda x: x + 0.0),
    "same shape": (lambda x: x.reshape(SHAPE), lambda x: x + 0.0),
    "same dtype": (lambda x: x.astype(engine.float64), lambda x: x + 0.0),
    "centered": (lambda x: x - engine.mean(x), lambda x: x - x.mean()),
    "reversed": (lambda x: x[::-1], lambda x: x[::-1]),
    "softmax": (lambda x: engine.exp(x) / engine.sum(engine.exp(x)), lambda x: np.exp(x) / np.exp(x).sum()),
}
KINKED = {
    "relu": (lambda x: engine.maximum(x, 0.0), _relu),
    "relu of a sum": (lambda x: engine.maximum(x + engine.zeros(SHAPE, dtype=engine.float64), 0.0), _relu),
    "abs": (engine.abs, np.abs),
    "clip": (lambda x: engine.clip(x, -0.7, 0.7), lambda x: np.clip(x, -0.7, 0.7)),
}
BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "add": (lambda a, b: a + b, np.add),
    "subtract": (lambda a, b: a - b, np.subtract),
    "multiply": (lambda a, b: a * b * 0.5, lambda a, b: a * b * 0.5),
    "mixed": (lambda a, b: engine.where(engine.arange(3) > 0, a, b), lambda a, b: np.where(np.arange(3) > 0, a, b)),
}
CREATIONS: dict[str, tuple[Callable[[], Any], Callable[[], np.ndarray]]] = {
    "ones": (lambda: engine.ones(SHAPE, dtype=engine.float64), lambda: np.ones(3)),
    "full": (lambda: engine.full(SHAPE, 0.5, dtype=engine.float64), lambda: np.full(3, 0.5)),
    "arange": (lambda: engine.arange(3.0, dtype=engine.float64), lambda: np.arange(3.0)),
    "linspace": (lambda: engine.linspace(-1.0, 1.0, 3, dtype=engine.float64), lambda: np.linspace(-1, 1, 3)),
    "eye": (lambda: engine.eye(3, dtype=engine.float64)[1], lambda: np.eye(3)[1]),
    "array": (lambda: engine.asarray([0.3, -0.2, 0.9], dtype=engine.float64), lambda: np.array([0.3, -0.2, 0.9])),
    "state": (lambda: engine.State(np.array([0.4, 0.1, -0.6])), lambda: np.array([0.4, 0.1, -0.6])),
}


@dataclass(frozen=True)
class Line:
    """An operation on earlier values, and what happens to handles after it."""

    name: str
    sources: tuple[int, ...]
    repeats: int = 1
    read: int | None = None
    dropped: tuple[int, ...] = ()


def program(random: np.random.Generator, *, smooth: bool, longest: int) -> list[Line]:
    unary = [*UNARY] if smooth else [*UNARY, *KINKED]
    lines = [Line(str(random.choice([*CREATIONS])), ()) for _ in range(random.integers(2, 5))]
    for _ in range(random.integers(3, 12)):
        count = len(lines)
        sources = tuple(int(place) for place in random.integers(0, count, 2))
        kind = random.random()
        repeats = int(random.integers(1, longest)) if random.random() < 0.1 else 1
        if kind < 0.15:
            line = Line(str(random.choice([*CREATIONS])), ())
        elif kind < 0.5:
            line = Line(str(random.choice(unary)), sources[:1])
        else:
            line = Line(str(random.choice([*BINARY])), sources)
        if line.name in ("tanh", "sin", "negative", "add"):
            line = Line(line.name, line.sources, repeats)
        read = int(random.integers(0, count + 1)) if random.random() < 0.4 else None
        lines.append(Line(line.name, line.sources, line.repeats, read))
    last = {place: user for user, line in enumerate(lines) for place in (user, *line.sources, line.read or 0)}
    return [
        replace(line, dropped=tuple(p for p in range(here) if last[p] == here and random.random() < 0.3))
        for here, line in enumerate(lines)
    ]


def computed(lines: list[Line], moved: int | None = None, by: np.ndarray | float = 0.0) -> list[np.ndarray]:
    """The values in NumPy, value number `moved` shifted `by`."""
    values: list[np.ndarray] = []
    for line in lines:
        if not line.sources:
            value = CREATIONS[line.name][1]()
        else:
            value = values[line.sources[0]]
            for _ in range(line.repeats):
                if len(line.sources) == 1:
                    value = {**UNARY, **KINKED}[line.name][1](value)
                else:
                    value = BINARY[line.name][1](value, values[line.sources[1]])
        values.append(value + by if len(values) == moved else value)
    return values


def run(lines: list[Line]) -> list[Any]:
    """The handles, None where one was dropped; values are read on the way as the lines say."""
    handles: list[Any] = []
    for line in lines:
        if not line.sources:
            handle = CREATIONS[line.name][0]()
        else:
            handle = handles[line.sources[0]]
            for _ in range(line.repeats):
                if len(line.sources) == 1:
                    handle = {**UNARY, **KINKED}[line.name][0](handle)
                else:
                    handle = BINARY[line.name][0](handle, handles[line.sources[1]])
        handles.append(handle)
        if line.read is not None:
            handles[line.read].numpy()
        for place in line.dropped:
            handles[place] = None
    return handles


def check(seed: int, *, longest: int) -> None:
    random = np.random.default_rng(seed)
    smooth = bool(random.random() < 0.4)
    lines = program(random, smooth=smooth, longest=longest)
    weights = random.standard_normal(3)
    handles = run(lines)
    output = engine.sum(handles[-1] * engine.asarray(weights))
    wrt = [place for place in sorted(_reached(lines)) if handles[place] is not None]
    if random.random() < 0.3:
        output.item()
    found = engine.gradients(output, [handles[place] for place in wrt])
    if random.random() < 0.5:
        output.numpy()
    value = float((computed(lines)[-1] * weights).sum())
    assert output.item() == pytest.approx(value, rel=1e-9, abs=1e-9)
    for place, gradient in zip(wrt, found, strict=True):
        direction = random.standard_normal(3)

        def along(step: float, place: int = place, direction: np.ndarray = direction) -> float:
            return float((computed(lines, place, step * direction)[-1] * weights).sum())

        right, left = (along(STEP) - value) / STEP, (value - along(-STEP)) / STEP
        if abs(right - left) > 1e-4 and sum(line.name in KINKED for line in lines) > 1:
            continue  # a kink of a kink; at one alone the derivative is the mean of both sides
        slope = (along(STEP) - along(-STEP)) / (2 * STEP)
        assert float((gradient.numpy() * direction).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-6), (seed, place)
        if smooth and random.random() < 0.3 and all(line.repeats == 1 for line in lines):
            (bent,) = engine.gradients(engine.sum(gradient * engine.asarray(direction)), [handles[place]])
            bend = (along(LARGE_STEP) - 2 * value + along(-LARGE_STEP)) / LARGE_STEP**2
            scale = max(1.0, abs(value))
            found_bend = float((bent.numpy() * direction).sum())
            assert found_bend == pytest.approx(bend, rel=1e-4, abs=1e-5 * scale), (seed, place)


def _reached(lines: list[Line]) -> set[int]:
    """The values that the last one depends on."""
    reached = {len(lines) - 1}
    for place in range(len(lines) - 1, -1, -1):
        if place in reached:
            reached.update(lines[place].sources)
    return reached


@pytest.mark.parametrize("seed", range(60))
def test_derivatives_equal_differences(seed: int) -> None:
    with engine.device("reference"):
        check(seed, longest=40)


@pytest.mark.full
@pytest.mark.parametrize("part", range(35))
def test_derivatives_of_many_programs_equal_differences(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if part % 2:  # what long histories do, in short ones
        monkeypatch.setattr(history, "UNREAD_LIMIT", 8)
        monkeypatch.setattr(evaluation, "PIECE", 5)
    with engine.device("cpu" if part == 0 else "reference"):
        for seed in range(1000 + 100 * part, 1100 + 100 * part):
            check(seed, longest=300 if part % 5 == 0 else 20)

"""First and second derivatives of functions of tensors against central differences, along random directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from trainer import engine
from trainer.engine import Tensor

STEP = 1e-5


def check_derivatives(
    function: Callable[..., Tensor], *values: np.ndarray, relative: float = 1e-6, second: bool = True
) -> None:
    """Of the real scalar `function` of float64 or complex128 arrays."""
    random = np.random.default_rng(0)
    directions = [_direction(random, value) for value in values]
    first = _slope(function, values, directions)
    assert first == pytest.approx(_difference(function, values, directions), rel=relative, abs=1e-7)
    if second:

        def slope(*tensors: Tensor) -> Tensor:
            return _along(engine.gradients(function(*tensors), tensors), directions)

        bend = _slope(slope, values, directions)
        assert bend == pytest.approx(_difference(slope, values, directions), rel=100 * relative, abs=1e-6)


def _direction(random: np.random.Generator, value: np.ndarray) -> np.ndarray:
    real = random.standard_normal(value.shape)
    return real + 1j * random.standard_normal(value.shape) if value.dtype.kind == "c" else real


def _along(gradients: Sequence[Tensor], directions: Sequence[np.ndarray]) -> Tensor:
    parts = [engine.sum(engine.real(engine.conj(g) * d)) for g, d in zip(gradients, directions, strict=True)]
    return sum(parts[1:], start=parts[0])


def _slope(function: Callable[..., Tensor], values: Sequence[np.ndarray], directions: Sequence[np.ndarray]) -> float:
    tensors = [engine.asarray(value) for value in values]
    return float(_along(engine.gradients(function(*tensors), tensors), directions))


def _difference(
    function: Callable[..., Tensor], values: Sequence[np.ndarray], directions: Sequence[np.ndarray]
) -> float:
    ends = [
        float(function(*[engine.asarray(v + sign * STEP * d) for v, d in zip(values, directions, strict=True)]))
        for sign in (1, -1)
    ]
    return (ends[0] - ends[1]) / (2 * STEP)

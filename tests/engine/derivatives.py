"""First and second derivatives of functions of tensors against central differences, along random directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from trainer import engine
from trainer.engine import Tensor

STEP = 1e-5


def check_derivatives(
    function: Callable[..., Tensor], *values: np.ndarray, relative: float = 1e-6, second: bool = True, seed: int = 0
) -> None:
    """Of a function of float64 or complex128 arrays, if its value is a real number; otherwise of the weighted sum of
    its squares, whose second derivatives are not zero where the function is linear.

    Places where the function has kinks are the caller's to avoid.
    """
    random = np.random.default_rng(seed)
    weights = random.standard_normal(function(*map(engine.asarray, values)).shape)
    directions = [_direction(random, value) for value in values]
    others = [_direction(random, value) for value in values]

    def value(*tensors: Tensor) -> Tensor:
        y = function(*tensors)
        return engine.sum(y * y * weights) if y.shape else y

    def slope(*tensors: Tensor) -> Tensor:
        return _along(engine.gradients(value(*tensors), list(tensors)), others)

    for order, scalar in enumerate((value, slope)[: 1 + second], start=1):
        tensors = [engine.asarray(value) for value in values]
        gradients = engine.gradients(scalar(*tensors), tensors)
        assert [(g.shape, g.dtype) for g in gradients] == [(t.shape, t.dtype) for t in tensors]
        found, expected = _along(gradients, directions).item(), _difference(scalar, values, directions)
        assert found == pytest.approx(expected, rel=relative * 10 ** (order - 1), abs=1e-6), f"order {order}"


def _direction(random: np.random.Generator, value: np.ndarray) -> np.ndarray:
    real = random.standard_normal(value.shape)
    return real + 1j * random.standard_normal(value.shape) if value.dtype.kind == "c" else real


def _along(gradients: Sequence[Tensor], directions: Sequence[np.ndarray]) -> Tensor:
    parts = [engine.sum(engine.real(engine.conj(g) * d)) for g, d in zip(gradients, directions, strict=True)]
    return sum(parts[1:], start=parts[0])


def _difference(scalar: Callable[..., Tensor], values: Sequence[np.ndarray], directions: Sequence[np.ndarray]) -> float:
    ends = [
        scalar(*[engine.asarray(v + sign * STEP * d) for v, d in zip(values, directions, strict=True)]).item()
        for sign in (1, -1)
    ]
    return float(ends[0] - ends[1]) / (2 * STEP)

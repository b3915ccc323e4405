"""First and second derivatives of functions of tensors, along random directions, against central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.engine import Tensor

STEP = 1e-6


def check_derivatives(function: Callable[..., Tensor], *arrays: np.ndarray, second: bool = True, seed: int = 0) -> None:
    """Hold both derivatives of the weighted squares of what `function` makes of float64 `arrays`.

    The squares make second derivatives of linear functions something else than zero. Places where the function has
    kinks are the caller's to avoid.
    """
    random = np.random.default_rng(seed)
    weights = random.standard_normal(function(*map(engine.asarray, arrays)).shape)
    directions = [random.standard_normal(array.shape) for array in arrays]
    others = [random.standard_normal(array.shape) for array in arrays]

    def value(*tensors: Tensor) -> Tensor:
        y = function(*tensors)
        return engine.sum(y * y * weights)

    def slope(*tensors: Tensor) -> Tensor:
        found = engine.gradients(value(*tensors), list(tensors))
        return _product(found, others)

    for order, scalar in enumerate((value, slope)[: 1 + second], start=1):
        tensors = [engine.asarray(array) for array in arrays]
        gradients = engine.gradients(scalar(*tensors), tensors)
        assert [(g.shape, g.dtype) for g in gradients] == [(t.shape, t.dtype) for t in tensors]
        expected = _difference(scalar, arrays, directions)
        assert _product(gradients, directions).item() == pytest.approx(expected, rel=1e-5, abs=1e-5), f"order {order}"


def _product(tensors: Sequence[Tensor], arrays: Sequence[np.ndarray]) -> Tensor:
    return engine.sum(engine.stack([engine.sum(t * a) for t, a in zip(tensors, arrays, strict=True)]))


def _difference(scalar: Callable[..., Tensor], arrays: Sequence[Any], directions: Sequence[Any]) -> float:
    ends = [
        scalar(*(engine.asarray(a + sign * STEP * d) for a, d in zip(arrays, directions, strict=True))).item()
        for sign in (1, -1)
    ]
    return float(ends[0] - ends[1]) / (2 * STEP)

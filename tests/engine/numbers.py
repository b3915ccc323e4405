"""Arrays of numbers with ties, limits and special values among them."""

from __future__ import annotations

import numpy as np

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 2.0**53, -(2.0**53)]


def numbers(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Numbers of which many are equal, the extremes and what is special among them."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        values = random.integers(max(limits.min, -50), 50, shape)
        return np.where(random.random(shape) < 0.1, random.choice([limits.min, limits.max], shape), values).astype(
            dtype
        )
    values = np.where(random.random(shape) < 0.3, random.choice(SPECIAL, shape), np.round(random.normal(size=shape), 1))
    with np.errstate(over="ignore"):
        return values.astype(dtype)

"""Initial values of parameters: functions from (generator, shape) to a float64 array.

Each parameter has its own generator, keyed by the seed and the parameter's path in the model, so the values do not
depend on the order in which layers are created, and adding a layer does not change the others' values. Formulas and
defaults are those of `torch.nn.init` (Glorot & Bengio 2010; He et al. 2015).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np

from trainer import TrainerError

Initializer = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def generator_for(seed: int, path: str) -> np.random.Generator:
    """Returns the Philox generator of the parameter at `path` of a model seeded with `seed`."""
    digest = hashlib.blake2b(f"{seed}/{path}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(digest, "<u8")))


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight [out, in, *window]; transposed convolutions use the same formula, as in torch."""
    if len(shape) < 2:
        raise TrainerError("fan-in and fan-out need a weight of at least two axes", found=f"shape {shape}")
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def gain(nonlinearity: str = "leaky_relu", negative_slope: float = 0.0) -> float:
    """The gain that preserves the variance through `nonlinearity` (linear, sigmoid, tanh, relu, leaky_relu, selu)."""
    gains = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5.0 / 3.0,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1.0 + negative_slope**2)),
        "selu": 0.75,
    }
    if nonlinearity not in gains:
        raise TrainerError("unknown nonlinearity", found=repr(nonlinearity), expected=", ".join(gains))
    return gains[nonlinearity]


def _fan(shape: tuple[int, ...], mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise TrainerError("unknown mode of an initializer", found=repr(mode), expected="fan_in or fan_out")
    return fans(shape)[mode == "fan_out"]


def zeros(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """All zeros."""
    return np.zeros(shape)


def ones(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """All ones."""
    return np.ones(shape)


def constant(value: float) -> Initializer:
    """All equal to `value`."""
    return lambda generator, shape: np.full(shape, value, np.float64)


def uniform(low: float = 0.0, high: float = 1.0) -> Initializer:
    """Uniform in [low, high)."""
    return lambda generator, shape: generator.uniform(low, high, shape)


def normal(mean: float = 0.0, std: float = 1.0) -> Initializer:
    """Normal with `mean` and standard deviation `std`."""
    return lambda generator, shape: generator.normal(mean, std, shape)


def trunc_normal(mean: float = 0.0, std: float = 1.0, low: float = -2.0, high: float = 2.0) -> Initializer:
    """Normal; values outside [low, high] are redrawn (absolute bounds, as in torch)."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        values = generator.normal(mean, std, shape)
        outside = (values < low) | (values > high)
        while outside.any():
            values[outside] = generator.normal(mean, std, int(outside.sum()))
            outside = (values < low) | (values > high)
        return values

    if not low < high or high < mean - 8 * std or low > mean + 8 * std:
        raise TrainerError(
            "trunc_normal: empty range",
            found=f"low={low}, high={high}, mean={mean}, std={std}",
        )
    return draw


def xavier_uniform(gain: float = 1.0) -> Initializer:
    """Uniform in ±gain·sqrt(6 / (fan_in + fan_out))."""
    return lambda generator, shape: _symmetric(generator, shape, gain * math.sqrt(6.0 / sum(fans(shape))))


def xavier_normal(gain: float = 1.0) -> Initializer:
    """Normal with standard deviation gain·sqrt(2 / (fan_in + fan_out))."""
    return lambda generator, shape: generator.normal(0.0, gain * math.sqrt(2.0 / sum(fans(shape))), shape)


def kaiming_uniform(a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Initializer:
    """Uniform in ±gain·sqrt(3 / fan); `a` is leaky_relu's slope. `a=sqrt(5)` is torch's default for layers."""
    factor = gain(nonlinearity, a)
    return lambda generator, shape: _symmetric(generator, shape, factor * math.sqrt(3.0 / _fan(shape, mode)))


def kaiming_normal(a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Initializer:
    """Normal with standard deviation gain / sqrt(fan)."""
    factor = gain(nonlinearity, a)
    return lambda generator, shape: generator.normal(0.0, factor / math.sqrt(_fan(shape, mode)), shape)


def fan_in_bias(weight_shape: tuple[int, ...]) -> Initializer:
    """Uniform in ±1 / sqrt(fan_in of the weight): torch's default for biases."""
    fan_in = fans(weight_shape)[0]
    return lambda generator, shape: _symmetric(generator, shape, 1.0 / math.sqrt(fan_in) if fan_in else 0.0)


def _symmetric(generator: np.random.Generator, shape: tuple[int, ...], bound: float) -> np.ndarray:
    return generator.uniform(-bound, bound, shape)

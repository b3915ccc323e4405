"""Functions of complex numbers that NumPy computes, with their complex derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from trainer.engine.functions.numpy_calls import numpy_call
from trainer.engine.graph import primitives as p
from trainer.engine.tensor import Tensor, wrapped

Derivative = Callable[[Tensor, Tensor], Any]
"""(z, f(z)) -> df/dz."""

DERIVATIVES: dict[str, Derivative] = {
    "exp": lambda z, y: y,
    "expm1": lambda z, y: y + 1,
    "log": lambda z, y: 1 / z,
    "log1p": lambda z, y: 1 / (z + 1),
    "log2": lambda z, y: 1 / (z * math.log(2)),
    "log10": lambda z, y: 1 / (z * math.log(10)),
    "sqrt": lambda z, y: 0.5 / y,
    "sin": lambda z, y: apply("cos", z),
    "cos": lambda z, y: -apply("sin", z),
    "tan": lambda z, y: 1 + y * y,
    "sinh": lambda z, y: apply("cosh", z),
    "cosh": lambda z, y: apply("sinh", z),
    "tanh": lambda z, y: 1 - y * y,
    "asin": lambda z, y: 1 / apply("sqrt", 1 - z * z),
    "acos": lambda z, y: -1 / apply("sqrt", 1 - z * z),
    "atan": lambda z, y: 1 / (1 + z * z),
    "asinh": lambda z, y: 1 / apply("sqrt", 1 + z * z),
    "acosh": lambda z, y: 1 / (apply("sqrt", z - 1) * apply("sqrt", z + 1)),
    "atanh": lambda z, y: 1 / (1 - z * z),
}
_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}


def conjugate(z: Tensor) -> Tensor:
    """Returns the complex conjugate; a real tensor is returned unchanged."""
    if not z.dtype.is_complex:
        return z
    return wrapped(p.complex_(p.real(z.node), p.negative(p.imag(z.node))), z)


def apply(name: str, z: Tensor) -> Tensor:
    """Applies the function `name`, a key of `DERIVATIVES`, to each element."""

    def gradient(inputs: Sequence[Tensor], outputs: Sequence[Tensor], cotangents: Sequence[Any]) -> list[Tensor]:
        return [cotangents[0] * conjugate(DERIVATIVES[name](inputs[0], outputs[0]))]

    return numpy_call(_NAMES.get(name, name), [z], [(z.shape, z.dtype)], gradient)[0]


def power(a: Tensor, b: Tensor) -> Tensor:
    """Returns a to the power b; both have the same complex dtype and shape."""

    def gradient(inputs: Sequence[Tensor], outputs: Sequence[Tensor], cotangents: Sequence[Any]) -> list[Tensor]:
        (base, exponent), (result,), (dy,) = inputs, outputs, cotangents
        return [
            dy * conjugate(exponent * power(base, exponent - 1)),
            dy * conjugate(result * apply("log", base)),
        ]

    return numpy_call("power", [a, b], [(a.shape, a.dtype)], gradient)[0]

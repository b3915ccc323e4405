"""The operators and methods of tensors, attached from one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainer.engine.functions import elementwise as e
from trainer.engine.functions import indexing, linear, movement, reductions
from trainer.engine.tensor import NUMBERS, Tensor

_BINARY: dict[str, Callable[[Any, Any], Tensor]] = {
    "add": e.add,
    "sub": e.subtract,
    "mul": e.multiply,
    "truediv": e.divide,
    "floordiv": e.floor_divide,
    "mod": e.remainder,
    "pow": e.pow,
    "matmul": linear.matmul,
    "and": e.bitwise_and,
    "or": e.bitwise_or,
    "xor": e.bitwise_xor,
    "lshift": e.bitwise_left_shift,
    "rshift": e.bitwise_right_shift,
}
_COMPARISONS = {
    "eq": e.equal,
    "ne": e.not_equal,
    "lt": e.less,
    "le": e.less_equal,
    "gt": e.greater,
    "ge": e.greater_equal,
}
_UNARY = {"neg": e.negative, "pos": e.positive, "abs": e.abs, "invert": e.bitwise_invert}

_METHODS: dict[str, Callable[..., Any]] = {
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "__contains__": lambda self, value: bool(reductions.any(self == value)),
    "sum": reductions.sum,
    "mean": reductions.mean,
    "max": reductions.max,
    "min": reductions.min,
}

_OPERANDS = (Tensor, *NUMBERS, np.ndarray, np.generic)


def _operators(function: Callable[[Any, Any], Tensor]) -> tuple[Callable[[Tensor, Any], Any], ...]:
    """Returns the operator of `function` for a tensor on the left, and the reflected one for a tensor on the right."""

    def operator(self: Tensor, other: Any) -> Any:
        return function(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def reflected(self: Tensor, other: Any) -> Any:
        return function(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    return operator, reflected


def _reshape(self: Tensor, *shape: Any) -> Tensor:
    """`x.reshape(2, 3)` and `x.reshape((2, 3))`; see `movement.reshape`."""
    return movement.reshape(self, shape[0] if len(shape) == 1 else shape)


def attach() -> None:
    """Gives `Tensor` its operators and methods."""
    for name, function in _BINARY.items():
        for prefix, operator in zip(("", "r"), _operators(function), strict=True):
            setattr(Tensor, f"__{prefix}{name}__", operator)
    for name, function in _COMPARISONS.items():
        setattr(Tensor, f"__{name}__", _operators(function)[0])
    for name, unary in _UNARY.items():
        setattr(Tensor, f"__{name}__", unary)
    for name, method in _METHODS.items():
        setattr(Tensor, name, method)
    Tensor.reshape = _reshape

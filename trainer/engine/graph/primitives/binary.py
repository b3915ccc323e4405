"""Element-wise primitives of two and three inputs of one shape, one line each: dtypes and NumPy reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Primitive, make_node
from trainer.engine.graph.primitives.table import (
    ANY,
    BOOLEAN,
    FLOAT,
    INTEGER,
    NUMERIC,
    common_shape,
    first_dtype,
    register,
)

Binary = Callable[[Node, Node], Node]


def _binary(
    name: str,
    kinds: tuple[str, ...],
    reference: Callable[[np.ndarray, np.ndarray], Any],
    result: DType | None = None,
) -> Binary:
    primitive = register(
        Primitive(
            name,
            "elementwise",
            common_shape(name),
            first_dtype(name, kinds, result),
            lambda attributes, a, b: reference(a, b),
        )
    )

    def build(a: Node, b: Node) -> Node:
        return make_node(primitive, (a, b))

    build.__name__ = build.__qualname__ = name
    return build


def _maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((a >= b) | (a != a), a, b)  # of equal ones the first, and NaN wins


def _minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((a <= b) | (a != a), a, b)


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Floats in float64; whole numbers wrap, and a negative exponent gives 1/a^|b| truncated, where 1/0 is 0."""
    if a.dtype.kind == "f":
        return np.power(a.astype(np.float64), b)
    negative = b < 0
    result = np.power(a, np.where(negative, 0, b).astype(a.dtype))
    odd = np.where(b % 2 == 0, 1, a).astype(a.dtype)
    return np.where(negative, np.where(np.abs(a.astype(np.int64)) == 1, odd, 0), result)


def _shift_right_logical(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return np.right_shift(a.astype(unsigned), b.astype(unsigned)).astype(a.dtype)


add: Binary = _binary("add", NUMERIC, np.add)
subtract: Binary = _binary("subtract", NUMERIC, np.subtract)
multiply: Binary = _binary("multiply", NUMERIC, np.multiply)
divide: Binary = _binary("divide", FLOAT, np.divide)
floor_divide: Binary = _binary("floor_divide", NUMERIC, np.floor_divide)  # whole numbers: x // 0 is 0
remainder: Binary = _binary("remainder", NUMERIC, np.remainder)  # sign of the divisor; x % 0 is 0
power: Binary = _binary("power", NUMERIC, _power)
maximum: Binary = _binary("maximum", NUMERIC, _maximum)
minimum: Binary = _binary("minimum", NUMERIC, _minimum)
equal: Binary = _binary("equal", ANY, np.equal, dtypes.bool_)
not_equal: Binary = _binary("not_equal", ANY, np.not_equal, dtypes.bool_)
less: Binary = _binary("less", NUMERIC, np.less, dtypes.bool_)
less_equal: Binary = _binary("less_equal", NUMERIC, np.less_equal, dtypes.bool_)
logical_and: Binary = _binary("logical_and", BOOLEAN, np.logical_and)
logical_or: Binary = _binary("logical_or", BOOLEAN, np.logical_or)
logical_xor: Binary = _binary("logical_xor", BOOLEAN, np.logical_xor)
bitwise_and: Binary = _binary("bitwise_and", INTEGER, np.bitwise_and)
bitwise_or: Binary = _binary("bitwise_or", INTEGER, np.bitwise_or)
bitwise_xor: Binary = _binary("bitwise_xor", INTEGER, np.bitwise_xor)
shift_left: Binary = _binary("shift_left", INTEGER, np.left_shift)  # amounts outside [0, width) are unspecified
shift_right: Binary = _binary("shift_right", INTEGER, np.right_shift)
shift_right_logical: Binary = _binary("shift_right_logical", INTEGER, _shift_right_logical)


def _where_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    condition, a, b = inputs
    if condition.dtype is not dtypes.bool_ or a.dtype is not b.dtype:
        raise refusal("where", "dtypes don't fit", found=describe(inputs), expected="bool, then two of one dtype")
    return a.dtype


_WHERE = register(
    Primitive(
        "where",
        "elementwise",
        common_shape("where"),
        _where_dtype,
        lambda attributes, condition, a, b: np.where(condition, a, b),
    )
)


def where(condition: Node, a: Node, b: Node) -> Node:
    """`a` where `condition` (bool) is true, `b` elsewhere."""
    return make_node(_WHERE, (condition, a, b))

"""Element-wise primitives of two and three inputs of one shape, one line each: dtypes, NumPy reference, derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Primitive, make_node
from trainer.engine.graph.primitives.compose import full_like, scale
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
Gradient = Callable[[Node, Node], Sequence[Node | None]]


def _binary(
    name: str,
    kinds: tuple[str, ...],
    reference: Callable[[np.ndarray, np.ndarray], Any],
    gradient: Gradient | None,
    result: DType | None = None,
) -> Binary:
    primitive = register(
        Primitive(
            name,
            "elementwise",
            common_shape(name),
            first_dtype(name, kinds, result),
            gradient,
            lambda attributes, a, b: reference(a, b),
        )
    )

    def build(a: Node, b: Node) -> Node:
        return make_node(primitive, (a, b))

    build.__name__ = build.__qualname__ = name
    return build


def _zero(node: Node, dy: Node) -> tuple[None, None]:
    return None, None


def _multiply_gradient(node: Node, dy: Node) -> tuple[Node, Node]:
    a, b = node.inputs
    return p.multiply(dy, b), p.multiply(dy, a)


def _divide_gradient(node: Node, dy: Node) -> tuple[Node, Node]:
    da = p.divide(dy, node.inputs[1])
    return da, p.negative(p.multiply(da, node))


def _remainder_gradient(node: Node, dy: Node) -> tuple[Node, Node]:
    """a - b·floor(a/b), with the floor constant."""
    a, b = node.inputs
    return dy, p.negative(p.multiply(dy, p.floor(p.divide(a, b))))


def _power_gradient(node: Node, dy: Node) -> tuple[Node | None, Node | None]:
    """b·a^(b-1), and a^b·log(a); 0 where b = 0, and 0 where a = 0 (as PyTorch has it)."""
    a, b = node.inputs
    if not a.dtype.is_float:
        return None, None
    zero, one = full_like(a, 0.0), full_like(a, 1.0)
    da = p.where(p.equal(b, zero), zero, p.multiply(b, p.power(a, p.subtract(b, one))))
    is_zero = p.equal(a, zero)
    db = p.where(is_zero, zero, p.multiply(node, p.log(p.where(is_zero, one, a))))
    return p.multiply(dy, da), p.multiply(dy, db)


def _greatest_gradient(node: Node, dy: Node) -> tuple[Node, Node]:
    """The cotangent goes to the input that was taken; equal inputs share it half and half (as PyTorch has it)."""
    a, b = node.inputs
    zero, half = full_like(dy, 0.0), scale(dy, 0.5)
    loser_of_a, loser_of_b = (p.less(b, a), p.less(a, b)) if node.name == "maximum" else (p.less(a, b), p.less(b, a))
    tie = p.where(p.equal(a, b), half, zero)
    return p.where(loser_of_a, dy, tie), p.where(loser_of_b, dy, tie)


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


add: Binary = _binary("add", NUMERIC, np.add, lambda node, dy: (dy, dy))
subtract: Binary = _binary("subtract", NUMERIC, np.subtract, lambda node, dy: (dy, p.negative(dy)))
multiply: Binary = _binary("multiply", NUMERIC, np.multiply, _multiply_gradient)
divide: Binary = _binary("divide", FLOAT, np.divide, _divide_gradient)
floor_divide: Binary = _binary("floor_divide", NUMERIC, np.floor_divide, _zero)  # whole numbers: x // 0 is 0
remainder: Binary = _binary("remainder", NUMERIC, np.remainder, _remainder_gradient)  # sign of the divisor; x % 0 is 0
power: Binary = _binary("power", NUMERIC, _power, _power_gradient)
maximum: Binary = _binary("maximum", NUMERIC, _maximum, _greatest_gradient)
minimum: Binary = _binary("minimum", NUMERIC, _minimum, _greatest_gradient)
equal: Binary = _binary("equal", ANY, np.equal, None, dtypes.bool_)
not_equal: Binary = _binary("not_equal", ANY, np.not_equal, None, dtypes.bool_)
less: Binary = _binary("less", NUMERIC, np.less, None, dtypes.bool_)
less_equal: Binary = _binary("less_equal", NUMERIC, np.less_equal, None, dtypes.bool_)
logical_and: Binary = _binary("logical_and", BOOLEAN, np.logical_and, None)
logical_or: Binary = _binary("logical_or", BOOLEAN, np.logical_or, None)
logical_xor: Binary = _binary("logical_xor", BOOLEAN, np.logical_xor, None)
bitwise_and: Binary = _binary("bitwise_and", INTEGER, np.bitwise_and, None)
bitwise_or: Binary = _binary("bitwise_or", INTEGER, np.bitwise_or, None)
bitwise_xor: Binary = _binary("bitwise_xor", INTEGER, np.bitwise_xor, None)
shift_left: Binary = _binary("shift_left", INTEGER, np.left_shift, None)  # amounts outside [0, width) are unspecified
shift_right: Binary = _binary("shift_right", INTEGER, np.right_shift, None)
shift_right_logical: Binary = _binary("shift_right_logical", INTEGER, _shift_right_logical, None)


def _where_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    condition, a, b = inputs
    if condition.dtype is not dtypes.bool_ or a.dtype is not b.dtype:
        raise refusal("where", "dtypes don't fit", found=describe(inputs), expected="bool, then two of one dtype")
    return a.dtype


def _where_gradient(node: Node, dy: Node) -> tuple[None, Node, Node]:
    zero = full_like(dy, 0.0)
    return None, p.where(node.inputs[0], dy, zero), p.where(node.inputs[0], zero, dy)


_WHERE = register(
    Primitive(
        "where",
        "elementwise",
        common_shape("where"),
        _where_dtype,
        _where_gradient,
        lambda attributes, condition, a, b: np.where(condition, a, b),
    )
)


def where(condition: Node, a: Node, b: Node) -> Node:
    """`a` where `condition` (bool) is true, `b` elsewhere."""
    return make_node(_WHERE, (condition, a, b))

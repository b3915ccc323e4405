"""Element-wise primitives on inputs of one shape, one line each: dtypes and NumPy reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import check_dtype, describe, refusal
from trainer.engine.graph.node import Node, make_node
from trainer.engine.graph.primitives.table import (
    BOOLEAN,
    FLOAT,
    INTEGER,
    NUMERIC,
    OF_COMPLEX,
    REAL,
    common_shape,
    composed,
    first_shape,
    named,
    register,
    single_or_double,
)

Kinds = tuple[str, ...]
Unary = Callable[[Node], Node]
Binary = Callable[[Node, Node], Node]


def _unary(name: str, kinds: Kinds, reference: Callable[[np.ndarray], Any], result: DType | None = None) -> Unary:
    primitive = register(name, "elementwise", first_shape, kinds, lambda attributes, x: reference(x), result=result)
    return named(name, lambda x: composed(primitive, (x,)))


def _binary(
    name: str, kinds: Kinds, reference: Callable[[np.ndarray, np.ndarray], Any], result: DType | None = None
) -> Binary:
    primitive = register(
        name, "elementwise", common_shape(name), kinds, lambda attributes, a, b: reference(a, b), result=result
    )
    return named(name, lambda a, b: composed(primitive, (a, b)))


# --- references -------------------------------------------------------------------------------------------------------


def _in_double(function: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    """Evaluates `function` in float64 for inputs of any width: the rounded result is the best float32."""
    return lambda x: function(x.astype(np.float64))


def _logistic(x: np.ndarray) -> np.ndarray:
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, decay) / (1.0 + decay)


def _sign(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x.dtype.type(1), np.where(x < 0, np.array(-1).astype(x.dtype), np.where(x == 0, 0, x)))


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((a >= b) | (a != a), a, b)  # the first of equal elements; NaN wins


def _minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((a <= b) | (a != a), a, b)


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Computes floats in float64. Integers wrap; a negative exponent gives 1/a^|b| truncated, where 1/0 is 0."""
    if a.dtype.kind == "f":
        return np.power(a.astype(np.float64), b)
    negative = b < 0
    result = np.power(a, np.where(negative, 0, b).astype(a.dtype))
    odd = np.where(b % 2 == 0, 1, a).astype(a.dtype)
    return np.where(negative, np.where(np.abs(a.astype(np.int64)) == 1, odd, 0), result)


def _shift_right_logical(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return np.right_shift(a.astype(unsigned), b.astype(unsigned)).astype(a.dtype)


# --- one input --------------------------------------------------------------------------------------------------------

negative: Unary = _unary("negative", NUMERIC, np.negative)
abs: Unary = _unary("abs", NUMERIC, np.abs)
sign: Unary = _unary("sign", NUMERIC, _sign)
exp: Unary = _unary("exp", FLOAT, _in_double(np.exp))
expm1: Unary = _unary("expm1", FLOAT, _in_double(np.expm1))
log: Unary = _unary("log", FLOAT, _in_double(np.log))
log1p: Unary = _unary("log1p", FLOAT, _in_double(np.log1p))
sqrt: Unary = _unary("sqrt", FLOAT, np.sqrt)
sin: Unary = _unary("sin", FLOAT, _in_double(np.sin))
cos: Unary = _unary("cos", FLOAT, _in_double(np.cos))
tanh: Unary = _unary("tanh", FLOAT, _in_double(np.tanh))
erf: Unary = _unary("erf", FLOAT, _in_double(_erf))
logistic: Unary = _unary("logistic", FLOAT, _in_double(_logistic))
floor: Unary = _unary("floor", FLOAT, np.floor)
ceil: Unary = _unary("ceil", FLOAT, np.ceil)
round: Unary = _unary("round", FLOAT, np.rint)  # half to even
trunc: Unary = _unary("trunc", FLOAT, np.trunc)
logical_not: Unary = _unary("logical_not", BOOLEAN, np.logical_not)
bitwise_invert: Unary = _unary("bitwise_invert", INTEGER, np.invert)
isfinite: Unary = _unary("isfinite", FLOAT, np.isfinite, dtypes.bool_)
isnan: Unary = _unary("isnan", FLOAT, np.isnan, dtypes.bool_)
isinf: Unary = _unary("isinf", FLOAT, np.isinf, dtypes.bool_)

# --- two or three inputs ----------------------------------------------------------------------------------------------

add: Binary = _binary("add", NUMERIC, np.add)
subtract: Binary = _binary("subtract", NUMERIC, np.subtract)
multiply: Binary = _binary("multiply", NUMERIC, np.multiply)
divide: Binary = _binary("divide", FLOAT, np.divide)
floor_divide: Binary = _binary("floor_divide", NUMERIC, np.floor_divide)  # integers: x // 0 is 0
remainder: Binary = _binary("remainder", NUMERIC, np.remainder)  # sign of the divisor; x % 0 is 0
power: Binary = _binary("power", NUMERIC, _power)
atan2: Binary = _binary("atan2", FLOAT, lambda a, b: np.arctan2(a.astype(np.float64), b))
copysign: Binary = _binary("copysign", FLOAT, np.copysign)
maximum: Binary = _binary("maximum", NUMERIC, _maximum)
minimum: Binary = _binary("minimum", NUMERIC, _minimum)
equal: Binary = _binary("equal", REAL, np.equal, dtypes.bool_)
not_equal: Binary = _binary("not_equal", REAL, np.not_equal, dtypes.bool_)
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


_NEXTAFTER = register(
    "nextafter", "elementwise", common_shape("nextafter"), single_or_double("nextafter"),
    lambda attributes, a, b: np.nextafter(a, b),
)  # fmt: skip


def nextafter(a: Node, b: Node) -> Node:
    """The float32 or float64 next to `a` in the direction of `b`; `b` where both are equal."""
    return make_node(_NEXTAFTER, (a, b))


def _where_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    condition, a, b = inputs
    if condition.dtype is not dtypes.bool_ or a.dtype is not b.dtype:
        raise refusal("where", "dtypes don't fit", found=describe(inputs), expected="bool, then two of one dtype")
    return a.dtype


_WHERE = register(
    "where",
    "elementwise",
    common_shape("where"),
    _where_dtype,
    lambda attributes, condition, a, b: np.where(condition, a, b),
)


def where(condition: Node, a: Node, b: Node) -> Node:
    """`a` where `condition` (bool) is true, `b` elsewhere."""
    return make_node(_WHERE, (condition, a, b))


# --- conversions ------------------------------------------------------------------------------------------------------


def _given_dtype(inputs: Any, attributes: tuple[Any, ...]) -> DType:
    check_dtype("astype", attributes[0])
    return attributes[0]


def cast_values(x: np.ndarray, dtype: DType) -> np.ndarray:
    """`x`, bools or numbers of any NumPy dtype, cast to `dtype` as by `cast`; to a 16-bit float as unrounded float32.

    Floats to integers truncate and saturate, NaN becomes 0; integers wrap; every number but zero becomes True.
    """
    if dtype.is_integer and x.dtype.kind == "f":
        x = x.astype(np.float32) if x.dtype.itemsize == 2 else x  # float16 does not hold the bounds
        information = np.iinfo(dtype.storage)
        inside = (x > float(information.min) - 1) & (x < float(information.max) + 1)
        low, zero, high = np.array([information.min, 0, information.max], dtype.storage)
        truncated = np.where(inside, np.trunc(x), 0).astype(dtype.storage)
        return np.where(inside, truncated, np.where(x > 0, high, np.where(x < 0, low, zero)))
    if dtype.is_float:
        return x.astype(np.float64) if dtype is dtypes.float64 else x.astype(np.float32)
    return x.astype(dtype.storage)


_CAST = register(
    "cast", "elementwise", first_shape, _given_dtype, lambda attributes, x: cast_values(x, attributes[0]), ("dtype",)
)


def cast(x: Node, dtype: DType) -> Node:
    """`x` rounded to nearest even in `dtype`.

    Floats to integers truncate and saturate (NaN gives 0), integers wrap, and every number but zero becomes True.
    For complex numbers see `complex.py`.
    """
    if isinstance(dtype, DType) and dtype.is_complex and not x.dtype.is_complex:
        return OF_COMPLEX["complex"](cast(x, dtype.part), None)
    return x if x.dtype is dtype and dtype.is_complex else composed(_CAST, (x,), (dtype,))

"""Element-wise functions of the standard: operands are promoted to one dtype and broadcast to one shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainer.engine.autocast import widened
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.table import named
from trainer.engine.promotion import check_scalar
from trainer.engine.tensor import NUMBERS, Tensor, as_tensor, broadcast_shape, operands, wrapped

Unary = Callable[[Any], Tensor]
Binary = Callable[[Any, Any], Tensor]


def _unary(build: Callable[[Node], Node], purpose: str, *, wide: bool = False) -> Unary:
    """The function of tensors that applies `build` to each element; a `wide` one is in float32 under autocast."""

    def function(x: Any, /) -> Tensor:
        tensor = x if isinstance(x, Tensor) else as_tensor(x, operation=build.__name__)
        if wide:
            tensor = widened(tensor)
        return wrapped(build(tensor.node), tensor)

    return _documented(function, build.__name__, purpose, _OF_ONE)


def _binary(build: Callable[[Node, Node], Node], purpose: str, name: str = "") -> Binary:
    """The function of tensors and numbers that applies `build` to each pair of elements."""
    name = name or build.__name__

    def function(x1: Any, x2: Any, /) -> Tensor:
        if isinstance(x1, Tensor):
            a = x1.node
            if isinstance(x2, Tensor):
                b = x2.node
                if a.shape == b.shape and a.dtype is b.dtype:
                    return wrapped(build(a, b), x1, x2)
            elif isinstance(x2, NUMBERS):
                check_scalar(name, x2, a.dtype)
                return wrapped(build(a, p.full(a.shape, x2, a.dtype)), x1)
        elif isinstance(x2, Tensor) and isinstance(x1, NUMBERS):
            b = x2.node
            check_scalar(name, x1, b.dtype)
            return wrapped(build(p.full(b.shape, x1, b.dtype), b), x2)
        (a, b), tensors = operands(name, x1, x2)
        return wrapped(build(a, b), *tensors)

    return _documented(function, name, purpose, _OF_TWO)


_OF_ONE = """

    Args:
        x: a tensor, array, number or nested list of any shape, which the result has, too.

    Raises:
        TrainerError: the operation is not defined for the dtype.
    """
_OF_TWO = """

    Args:
        x1, x2: tensors, arrays, numbers or nested lists that broadcast to one shape, the result's. They meet in one
            dtype; a Python number takes the other's.

    Raises:
        TrainerError: shapes don't broadcast, dtypes don't meet, or the operation is not defined for theirs.
    """


def _documented(function: Any, name: str, purpose: str, details: str) -> Any:
    function.__doc__ = purpose + details
    return named(name, function)


def _by_kind(logical: Callable[..., Node], numeric: Callable[..., Node], name: str) -> Callable[..., Node]:
    """Bools take the logical primitive, numbers the other one."""
    return named(name, lambda *nodes: (logical if nodes[0].dtype is dtypes.bool_ else numeric)(*nodes))


def _for_integers_same(build: Callable[[Node], Node]) -> Callable[[Node], Node]:
    """Rounding leaves integers as they are."""
    return named(build.__name__, lambda x: x if x.dtype.is_integer else build(x))


def _classifying(build: Callable[[Node], Node], of_integers: bool) -> Callable[[Node], Node]:
    """Integers are finite."""
    return named(
        build.__name__, lambda x: p.full(x.shape, of_integers, dtypes.bool_) if x.dtype.is_integer else build(x)
    )


negative = _unary(p.negative, "-x.")
abs = _unary(p.abs, "The magnitude.")
sign = _unary(p.sign, "-1, 0 or 1; NaN stays NaN.")
exp = _unary(p.exp, "e to the power x.", wide=True)
expm1 = _unary(p.expm1, "exp(x) - 1, exact near 0.", wide=True)
log = _unary(p.log, "The natural logarithm.", wide=True)
log1p = _unary(p.log1p, "log(1 + x), exact near 0.", wide=True)
sqrt = _unary(p.sqrt, "The square root.")
square = _unary(named("square", lambda x: p.multiply(x, x)), "x * x.")
reciprocal = _unary(named("reciprocal", lambda x: p.divide(p.full(x.shape, 1, x.dtype), x)), "1 / x.", wide=True)
sin = _unary(p.sin, "The sine of radians.")
cos = _unary(p.cos, "The cosine of radians.")
tanh = _unary(p.tanh, "The hyperbolic tangent.")
erf = _unary(p.erf, "The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x.")
logistic = _unary(p.logistic, "1 / (1 + exp(-x)).")
floor = _unary(_for_integers_same(p.floor), "The greatest whole number that is not above x.")
ceil = _unary(_for_integers_same(p.ceil), "The least whole number that is not below x.")
round = _unary(_for_integers_same(p.round), "The nearest whole number, of two the even one.")
trunc = _unary(_for_integers_same(p.trunc), "The whole number next to x towards 0.")
logical_not = _unary(p.logical_not, "True where x (bool) is False.")
bitwise_invert = _unary(_by_kind(p.logical_not, p.bitwise_invert, "bitwise_invert"), "Each bit inverted.")
isfinite = _unary(_classifying(p.isfinite, True), "Whether x is neither infinite nor NaN.")
isnan = _unary(_classifying(p.isnan, False), "Whether x is NaN.")
isinf = _unary(_classifying(p.isinf, False), "Whether x is infinite.")

add = _binary(p.add, "x1 + x2.")
subtract = _binary(p.subtract, "x1 - x2.")
multiply = _binary(p.multiply, "x1 * x2.")
divide = _binary(p.divide, "x1 / x2, floating-point.")
floor_divide = _binary(p.floor_divide, "x1 / x2 rounded down; whole numbers by 0 give 0.")
remainder = _binary(p.remainder, "x1 modulo x2, with the sign of x2; whole numbers by 0 give 0.")
maximum = _binary(
    _by_kind(p.logical_or, p.maximum, "maximum"),
    "The larger of two; NaN wins, True is larger than False. Equal ones share the gradient half and half.",
)
minimum = _binary(
    _by_kind(p.logical_and, p.minimum, "minimum"),
    "The smaller of two; NaN wins, False is smaller than True. Equal ones share the gradient half and half.",
)
equal = _binary(p.equal, "Whether x1 == x2.")
not_equal = _binary(p.not_equal, "Whether x1 != x2.")
less = _binary(p.less, "Whether x1 < x2.")
less_equal = _binary(p.less_equal, "Whether x1 <= x2.")
greater = _binary(lambda a, b: p.less(b, a), "Whether x1 > x2.", "greater")
greater_equal = _binary(lambda a, b: p.less_equal(b, a), "Whether x1 >= x2.", "greater_equal")
logical_and = _binary(p.logical_and, "Whether both (bool) are true.")
logical_or = _binary(p.logical_or, "Whether either (bool) is true.")
logical_xor = _binary(p.logical_xor, "Whether one (bool) is true and the other is not.")
bitwise_and = _binary(_by_kind(p.logical_and, p.bitwise_and, "bitwise_and"), "The bits that both have.")
bitwise_or = _binary(_by_kind(p.logical_or, p.bitwise_or, "bitwise_or"), "The bits that either has.")
bitwise_xor = _binary(_by_kind(p.logical_xor, p.bitwise_xor, "bitwise_xor"), "The bits in which they differ.")
bitwise_left_shift = _binary(p.shift_left, "Bits moved up by x2 places.", "bitwise_left_shift")
bitwise_right_shift = _binary(p.shift_right, "Bits moved down by x2 places.", "bitwise_right_shift")

_power = _binary(p.power, "x1 to the power x2.", "pow")


def pow(x1: Any, x2: Any, /) -> Tensor:
    """x1 to the power x2. The exponents 1, 2, 3, 1/2 and -1 become products, a root and a quotient."""
    x1, x2 = (widened(x) if isinstance(x, Tensor) else x for x in (x1, x2))
    if isinstance(x1, Tensor) and isinstance(x2, NUMBERS):
        if x2 == 1:
            return positive(x1)
        if x2 == 2:
            return x1 * x1
        if x2 == 3:
            return x1 * x1 * x1
        if x1.dtype.is_float and x2 == 0.5:
            return sqrt(x1)
        if x1.dtype.is_float and x2 == -1:
            return reciprocal(x1)
    return _power(x1, x2)


def positive(x: Any, /) -> Tensor:
    """x, as a tensor of its own."""
    tensor = as_tensor(x)
    return wrapped(tensor.node, tensor)


def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """x1 where `condition` (bool) holds, x2 elsewhere."""
    chooser = condition if isinstance(condition, Tensor) else as_tensor(condition, operation="where")
    if chooser.dtype is not dtypes.bool_:
        raise refusal("where", "the condition is no bool", found=repr(chooser.dtype), expected="bool")
    (a, b), tensors = operands("where", x1, x2)
    if chooser.shape != a.shape or a.shape != b.shape:
        shape = broadcast_shape("where", [chooser.shape, a.shape, b.shape])
        a, b = p.broadcast(a, shape), p.broadcast(b, shape)
        return wrapped(p.where(p.broadcast(chooser.node, shape), a, b), chooser, *tensors)
    return wrapped(p.where(chooser.node, a, b), chooser, *tensors)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """x held between `min` and `max`; None leaves a side open."""
    result = positive(x) if min is None else maximum(as_tensor(x), min)
    return result if max is None else minimum(result, max)


def astype(x: Any, dtype: DType, /, *, copy: bool = True) -> Tensor:
    """x rounded to `dtype`: floats to integers truncate and saturate, integers wrap, anything but zero is True.

    With `copy=False`, x itself if it has that dtype.
    """
    tensor = as_tensor(x)
    return tensor if not copy and tensor.dtype is dtype else tensor.astype(dtype)


def stop_gradient(x: Tensor, /) -> Tensor:
    """x as a constant: gradients don't pass."""
    return wrapped(p.stop_gradient(x.node), x)


def barrier(x: Tensor, /, tag: str | int = 0) -> Tensor:
    """x, computed apart from what uses it: fusion and the merging of common subexpressions stop here."""
    return wrapped(p.barrier(x.node, tag), x)

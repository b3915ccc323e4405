"""Element-wise functions of the standard: operands are promoted to one dtype and broadcast to one shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trainer.engine.autocast import widened
from trainer.engine.functions import complex_functions
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.table import named
from trainer.engine.promotion import beside
from trainer.engine.tensor import NUMBERS, Tensor, as_tensor, broadcast_shape, cast, operands, wrapped

Unary = Callable[[Any], Tensor]
Binary = Callable[[Any, Any], Tensor]


def _unary(build: Callable[[Node], Node], purpose: str, *, wide: bool = False) -> Unary:
    """Returns a function that applies `build` to each element of a tensor; with `wide`, in float32 under autocast."""

    def function(x: Any, /) -> Tensor:
        tensor = x if isinstance(x, Tensor) else as_tensor(x, operation=build.__name__)
        if tensor.dtype.is_complex and build.__name__ in complex_functions.DERIVATIVES:
            return complex_functions.apply(build.__name__, tensor)
        if wide:
            tensor = widened(tensor)
        return wrapped(build(tensor.node), tensor)

    return _documented(function, build.__name__, purpose, _OF_ONE)


def _composed(build: Callable[..., Node]) -> Callable[..., Node]:
    """Wraps `build`, which rounds more than once, to compute 16-bit floats in float32."""

    def function(*nodes: Node) -> Node:
        dtype = nodes[0].dtype
        return cast(build(*[cast(node, dtypes.float32) for node in nodes]), dtype) if dtype.is_half else build(*nodes)

    return named(build.__name__, function)


def _binary(build: Callable[[Node, Node], Node], purpose: str, name: str = "") -> Binary:
    """Returns a function that applies `build` to each pair of elements of tensors and numbers."""
    name = name or build.__name__

    def function(x1: Any, x2: Any, /) -> Tensor:
        if isinstance(x1, Tensor):
            a = x1.node
            if isinstance(x2, Tensor):
                b = x2.node
                if a.shape == b.shape and a.dtype is b.dtype:
                    return wrapped(build(a, b), x1, x2)
            elif isinstance(x2, NUMBERS):
                a = cast(a, beside(name, x2, a.dtype))
                return wrapped(build(a, p.full(a.shape, x2, a.dtype)), x1)
        elif isinstance(x2, Tensor) and isinstance(x1, NUMBERS):
            b = x2.node
            b = cast(b, beside(name, x1, b.dtype))
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
        x1, x2: tensors, arrays, numbers or nested lists that broadcast to one shape, the result's. They are promoted to
            one dtype; a Python number takes the other's dtype.

    Raises:
        TrainerError: shapes don't broadcast, dtypes can't be promoted, or the operation is not defined for them.
    """


def _documented(function: Any, name: str, purpose: str, details: str) -> Any:
    function.__doc__ = purpose + details
    return named(name, function)


def _by_kind(logical: Callable[..., Node], numeric: Callable[..., Node], name: str) -> Callable[..., Node]:
    """Returns a function that applies `logical` to bools and `numeric` to numbers."""
    return named(name, lambda *nodes: (logical if nodes[0].dtype is dtypes.bool_ else numeric)(*nodes))


def _for_integers_same(build: Callable[[Node], Node]) -> Callable[[Node], Node]:
    """Wraps a rounding primitive to return integers unchanged."""
    return named(build.__name__, lambda x: x if x.dtype.is_integer else build(x))


def _classifying(build: Callable[[Node], Node], of_integers: bool) -> Callable[[Node], Node]:
    """Wraps a predicate of floats to return `of_integers` for integers, which are always finite."""
    return named(
        build.__name__, lambda x: p.full(x.shape, of_integers, dtypes.bool_) if x.dtype.is_integer else build(x)
    )


def _number(x: Node, value: float) -> Node:
    return p.full(x.shape, value, x.dtype)


def _half(x: Node) -> Node:
    return p.multiply(x, _number(x, 0.5))


def _logarithm(name: str, base: float) -> Callable[[Node], Node]:
    """log(x) / log(base), computed in float64 and rounded once."""
    wide = dtypes.float64
    return named(name, lambda x: cast(p.divide(p.log(cast(x, wide)), p.full(x.shape, math.log(base), wide)), x.dtype))


def _powers(x: Node) -> tuple[Node, Node]:
    """exp(x) / 2 and exp(-x) / 2, computed from exp(x / 2), so that they stay in range where exp(x) overflows."""
    half = _half(x)
    root, inverse = p.exp(half), p.exp(p.negative(half))
    return p.multiply(_half(root), root), p.multiply(_half(inverse), inverse)


def _sinh(x: Node) -> Node:
    is_small = p.less(p.abs(x), _number(x, 1))
    inner = p.where(is_small, x, _number(x, 0))
    near = _half(p.subtract(p.expm1(inner), p.expm1(p.negative(inner))))
    return p.where(is_small, near, p.subtract(*_powers(x)))


def _asinh(x: Node) -> Node:
    one = _number(x, 1)
    is_small = p.less(p.abs(x), one)
    inner, outer = p.where(is_small, x, _number(x, 0)), p.where(is_small, one, x)
    ratio = p.divide(inner, p.add(one, p.sqrt(p.add(one, p.multiply(inner, inner)))))
    near = p.subtract(p.log1p(ratio), p.log1p(p.negative(ratio)))
    inverse = p.divide(one, outer)
    far = p.add(p.log(p.abs(outer)), p.log1p(p.sqrt(p.add(one, p.multiply(inverse, inverse)))))
    return p.where(is_small, near, p.multiply(p.sign(outer), far))


def _acosh(x: Node) -> Node:
    one, two = _number(x, 1), _number(x, 2)
    is_far = p.less(two, x)
    inner, outer = p.where(is_far, two, x), p.where(is_far, x, two)
    excess = p.subtract(inner, one)
    near = p.log1p(p.add(excess, p.multiply(p.sqrt(excess), p.sqrt(p.add(excess, two)))))
    inverse = p.divide(one, outer)
    far = p.add(p.log(outer), p.log1p(p.sqrt(p.subtract(one, p.multiply(inverse, inverse)))))
    return p.where(is_far, far, near)


def _beside(x: Node) -> Node:
    """sqrt(1 - x * x)."""
    one = _number(x, 1)
    return p.sqrt(p.multiply(p.subtract(one, x), p.add(one, x)))


def _logaddexp(a: Node, b: Node) -> Node:
    is_first = p.less_equal(b, a)
    high = p.where(is_first, a, b)
    distance = p.where(is_first, p.subtract(b, a), p.subtract(a, b))
    is_same = p.logical_and(p.isinf(high), p.equal(a, b))
    return p.add(high, p.log1p(p.exp(p.where(is_same, _number(high, 0), distance))))


def _sign(x: Node) -> Node:
    """The sign; for complex numbers x / |x|, or 0 for 0."""
    if not x.dtype.is_complex:
        return p.sign(x)
    size = p.abs(x)
    is_zero = p.equal(size, _number(size, 0))
    return p.where(is_zero, _number(x, 0), p.divide(x, cast(p.where(is_zero, _number(size, 1), size), x.dtype)))


def _conj(x: Node) -> Node:
    return p.complex_(p.real(x), p.negative(p.imag(x))) if x.dtype.is_complex else x


negative = _unary(p.negative, "-x.")
abs = _unary(p.abs, "The magnitude.")
sign = _unary(named("sign", _sign), "-1, 0 or 1; NaN stays NaN. For complex numbers x / abs(x).")
exp = _unary(p.exp, "e to the power x.", wide=True)
expm1 = _unary(p.expm1, "exp(x) - 1, exact near 0.", wide=True)
log = _unary(p.log, "The natural logarithm.", wide=True)
log1p = _unary(p.log1p, "log(1 + x), exact near 0.", wide=True)
sqrt = _unary(p.sqrt, "The square root.")
square = _unary(named("square", lambda x: p.multiply(x, x)), "x * x.")
reciprocal = _unary(named("reciprocal", lambda x: p.divide(p.full(x.shape, 1, x.dtype), x)), "1 / x.", wide=True)
sin = _unary(p.sin, "The sine of radians.")
cos = _unary(p.cos, "The cosine of radians.")
tan = _unary(_composed(named("tan", lambda x: p.divide(p.sin(x), p.cos(x)))), "The tangent of radians.")
asin = _unary(_composed(named("asin", lambda x: p.atan2(x, _beside(x)))), "The angle in [-pi/2, pi/2] of sine x.")
acos = _unary(_composed(named("acos", lambda x: p.atan2(_beside(x), x))), "The angle in [0, pi] of cosine x.")
atan = _unary(named("atan", lambda x: p.atan2(x, _number(x, 1))), "The angle in [-pi/2, pi/2] of tangent x.")
sinh = _unary(_composed(named("sinh", _sinh)), "The hyperbolic sine.")
cosh = _unary(_composed(named("cosh", lambda x: p.add(*_powers(x)))), "The hyperbolic cosine.")
asinh = _unary(_composed(named("asinh", _asinh)), "The inverse of sinh.")
acosh = _unary(_composed(named("acosh", _acosh)), "The inverse of cosh, at least 0; NaN below 1.")
atanh = _unary(
    _composed(named("atanh", lambda x: _half(p.subtract(p.log1p(x), p.log1p(p.negative(x)))))),
    "The inverse of tanh; NaN outside of [-1, 1].",
)
log2 = _unary(_logarithm("log2", 2.0), "The logarithm to base 2.", wide=True)
log10 = _unary(_logarithm("log10", 10.0), "The logarithm to base 10.", wide=True)
conj = _unary(named("conj", _conj), "The complex conjugate; real numbers stay unchanged.")
real = _unary(named("real", lambda x: p.real(x) if x.dtype.is_complex else x), "The real part.")
imag = _unary(
    named("imag", lambda x: p.imag(x) if x.dtype.is_complex else _number(x, 0)),
    "The imaginary part; 0 for real numbers.",
)
signbit = _unary(
    named("signbit", lambda x: p.less(p.copysign(_number(x, 1), x), _number(x, 0))),
    "Whether the sign of floating-point x is negative, also for -0 and NaN.",
)
tanh = _unary(p.tanh, "The hyperbolic tangent.")
erf = _unary(p.erf, "The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x.")
logistic = _unary(p.logistic, "1 / (1 + exp(-x)).")
floor = _unary(_for_integers_same(p.floor), "The largest integer that is at most x.")
ceil = _unary(_for_integers_same(p.ceil), "The smallest integer that is at least x.")
round = _unary(_for_integers_same(p.round), "The nearest integer; ties go to the even one.")
trunc = _unary(_for_integers_same(p.trunc), "The integer part of x.")
logical_not = _unary(p.logical_not, "True where x (bool) is False.")
bitwise_invert = _unary(_by_kind(p.logical_not, p.bitwise_invert, "bitwise_invert"), "Each bit inverted.")
isfinite = _unary(_classifying(p.isfinite, True), "Whether x is neither infinite nor NaN.")
isnan = _unary(_classifying(p.isnan, False), "Whether x is NaN.")
isinf = _unary(_classifying(p.isinf, False), "Whether x is infinite.")

add = _binary(p.add, "x1 + x2.")
subtract = _binary(p.subtract, "x1 - x2.")
multiply = _binary(p.multiply, "x1 * x2.")
divide = _binary(p.divide, "x1 / x2, floating-point.")
floor_divide = _binary(p.floor_divide, "x1 / x2 rounded down; integer division by 0 gives 0.")
remainder = _binary(p.remainder, "x1 modulo x2, with the sign of x2; an integer modulo 0 is 0.")
maximum = _binary(
    _by_kind(p.logical_or, p.maximum, "maximum"),
    "The larger of both; NaN propagates, True is larger than False. Equal elements share the gradient equally.",
)
minimum = _binary(
    _by_kind(p.logical_and, p.minimum, "minimum"),
    "The smaller of both; NaN propagates, False is smaller than True. Equal elements share the gradient equally.",
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
bitwise_and = _binary(_by_kind(p.logical_and, p.bitwise_and, "bitwise_and"), "Bitwise and.")
bitwise_or = _binary(_by_kind(p.logical_or, p.bitwise_or, "bitwise_or"), "Bitwise or.")
bitwise_xor = _binary(_by_kind(p.logical_xor, p.bitwise_xor, "bitwise_xor"), "Bitwise exclusive or.")
bitwise_left_shift = _binary(p.shift_left, "x1 shifted left by x2 bits.", "bitwise_left_shift")
bitwise_right_shift = _binary(p.shift_right, "x1 shifted right by x2 bits.", "bitwise_right_shift")

atan2 = _binary(p.atan2, "The angle of the point (x2, x1) in (-pi, pi]; signed zeros and infinities as in C99.")
copysign = _binary(p.copysign, "|x1| with the sign of x2, also for -0 and NaN.")
nextafter = _binary(p.nextafter, "The next representable number after x1 in the direction of x2; float32 or float64.")
hypot = _binary(_composed(p.hypot), "sqrt(x1 * x1 + x2 * x2) without overflow; derivatives at (0, 0) are 0.")
logaddexp = _binary(_composed(named("logaddexp", _logaddexp)), "log(exp(x1) + exp(x2)) without overflow.")

_power = _binary(p.power, "x1 to the power x2.", "pow")


def pow(x1: Any, x2: Any, /) -> Tensor:
    """x1 to the power x2. The exponents 1, 2, 3, 1/2 and -1 become products, a root and a quotient.

    Both broadcast to one shape and are promoted to one dtype. Integers wrap; a negative power of an integer is 0,
    except for 1 and -1.

    Raises:
        TrainerError: shapes don't broadcast, or dtypes can't be promoted.
    """
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
    if any(isinstance(x, complex) or (isinstance(x, Tensor) and x.dtype.is_complex) for x in (x1, x2)):
        (a, b), tensors = operands("pow", x1, x2)
        return complex_functions.power(*(wrapped(node, *tensors) for node in (a, b)))
    return _power(x1, x2)


def positive(x: Any, /) -> Tensor:
    """A new tensor with the value, shape and dtype of x.

    Raises:
        TrainerError: `x` can't be converted to a tensor; see `asarray`.
    """
    tensor = as_tensor(x)
    return wrapped(tensor.node, tensor)


def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """x1 where `condition` (bool) is true, x2 elsewhere.

    All three broadcast to one shape; x1 and x2 are promoted to one dtype.

    Raises:
        TrainerError: `condition` is not bool, shapes don't broadcast, or dtypes can't be promoted.
    """
    chooser = condition if isinstance(condition, Tensor) else as_tensor(condition, operation="where")
    if chooser.dtype is not dtypes.bool_:
        raise refusal("where", "the condition must be bool", found=repr(chooser.dtype), expected="bool")
    (a, b), tensors = operands("where", x1, x2)
    if chooser.shape != a.shape or a.shape != b.shape:
        shape = broadcast_shape("where", [chooser.shape, a.shape, b.shape])
        a, b = p.broadcast(a, shape), p.broadcast(b, shape)
        return wrapped(p.where(p.broadcast(chooser.node, shape), a, b), chooser, *tensors)
    return wrapped(p.where(chooser.node, a, b), chooser, *tensors)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """x limited to `min` and `max`; None: no limit.

    All broadcast to one shape and are promoted to one dtype; NaN stays NaN.

    Raises:
        TrainerError: shapes don't broadcast, or dtypes can't be promoted.
    """
    result = positive(x) if min is None else maximum(as_tensor(x), min)
    return result if max is None else minimum(result, max)


def astype(x: Any, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """x converted to `dtype`: floats to integers truncate and saturate, integers wrap, nonzero is True.

    Complex numbers convert to complex or bool only. `copy=False` returns x if it has that dtype. The shape stays.

    Raises:
        TrainerError: complex numbers would become real.
    """
    tensor = as_tensor(x)
    return tensor if not copy and tensor.dtype is dtype else tensor.astype(dtype)


def stop_gradient(x: Tensor, /) -> Tensor:
    """Returns x as a constant, of the same shape and dtype: no gradients flow through it."""
    return wrapped(p.stop_gradient(x.node), x)


def barrier(x: Tensor, /, tag: str | int = 0) -> Tensor:
    """Returns x, computed separately from its users: neither fusion nor common-subexpression elimination crosses it.

    The result has x's shape and dtype. Barriers with different tags are different values.
    """
    return wrapped(p.barrier(x.node, tag), x)

"""Complex numbers: pairs of floats, which three primitives join and split. Movement treats a pair as one element.

Everything else is composed of real arithmetic on the parts: it fuses as usual, and has gradients of every order. The
cotangent of z = x + iy is dL/dx + i dL/dy. Sums, products and quotients equal NumPy's up to rounding; functions such as
exp are host calls of the tensor layer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, make_node
from trainer.engine.graph.primitives import contraction, elementwise, index, movement, reduction
from trainer.engine.graph.primitives.compose import full, full_like
from trainer.engine.graph.primitives.marker import stop_gradient
from trainer.engine.graph.primitives.table import (
    OF_COMPLEX,
    common_shape,
    first_shape,
    register,
    single_or_double,
)


def _joined_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    return single_or_double("complex")(inputs, attributes).with_imaginary


def _part_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    if not inputs[0].dtype.is_complex:
        raise refusal("real", "no complex number", found=describe(inputs), expected="complex64 or complex128")
    return inputs[0].dtype.part


def _joined(attributes: tuple[Any, ...], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    result = np.empty(x.shape, np.complex64 if x.dtype == np.float32 else np.complex128)
    result.real, result.imag = x, y
    return result


_COMPLEX = register("complex", "elementwise", common_shape("complex"), _joined_dtype, _joined)
_REAL = register("real", "elementwise", first_shape, _part_dtype, lambda attributes, z: np.real(z))
_IMAG = register("imag", "elementwise", first_shape, _part_dtype, lambda attributes, z: np.imag(z))


def complex_(x: Node, y: Node | None = None) -> Node:
    """x + iy for two float32 or two float64 inputs; x + 0i without `y`."""
    return make_node(_COMPLEX, (x, full_like(x, 0.0) if y is None else y))


def real(z: Node) -> Node:
    """The real part."""
    return make_node(_REAL, (z,))


def imag(z: Node) -> Node:
    """The imaginary part."""
    return make_node(_IMAG, (z,))


# --- compositions for other primitives --------------------------------------------------------------------------------


def _by_parts(build: Callable[..., Node], places: int = 1) -> Callable[..., Node]:
    """Applies `build` to the real parts and to the imaginary parts of the first `places` inputs separately."""

    def function(*given: Any) -> Node:
        values, rest = given[:places], given[places:]
        return complex_(build(*map(real, values), *rest), build(*map(imag, values), *rest))

    return function


def _multiply(a: Node, b: Node) -> Node:
    (x, y), (u, v) = (real(a), imag(a)), (real(b), imag(b))
    times = elementwise.multiply
    return complex_(
        elementwise.subtract(times(x, u), times(y, v)),
        elementwise.add(times(x, v), times(y, u)),
    )


def scale_of(x: Node, y: Node) -> Node:
    """The larger of |x| and |y|, a constant that divides both to keep squares in range; 1 for 0 and infinity."""
    larger = elementwise.maximum(elementwise.abs(x), elementwise.abs(y))
    zero, limit = full_like(x, 0.0), full_like(x, float("inf"))
    is_usable = elementwise.logical_and(elementwise.less(zero, larger), elementwise.less(larger, limit))
    return stop_gradient(elementwise.where(is_usable, larger, full_like(x, 1.0)))


def _divide(a: Node, b: Node) -> Node:
    """a times the conjugate of b over |b| squared, with b divided by its larger part first."""
    x, y, u, v = real(a), imag(a), real(b), imag(b)
    times, over = elementwise.multiply, elementwise.divide
    scale = scale_of(u, v)
    u, v = over(u, scale), over(v, scale)
    size = times(elementwise.add(times(u, u), times(v, v)), scale)
    return complex_(
        over(elementwise.add(times(x, u), times(y, v)), size),
        over(elementwise.subtract(times(y, u), times(x, v)), size),
    )


def hypot(x: Node, y: Node) -> Node:
    """sqrt(x * x + y * y) without overflow; infinite where either is. At 0 its derivatives are 0."""
    times, scale = elementwise.multiply, scale_of(x, y)
    a, b = elementwise.divide(x, scale), elementwise.divide(y, scale)
    size = elementwise.add(times(a, a), times(b, b))
    zero, one, infinite = full_like(x, 0.0), full_like(x, 1.0), full_like(x, float("inf"))
    is_zero = elementwise.equal(size, zero)
    root = times(elementwise.sqrt(elementwise.where(is_zero, one, size)), scale)
    either = elementwise.logical_or(elementwise.isinf(x), elementwise.isinf(y))
    return elementwise.where(either, infinite, elementwise.where(is_zero, zero, root))


def _matmul(a: Node, b: Node, precision: DType | None) -> Node:
    x, y, u, v = real(a), imag(a), real(b), imag(b)
    product = functools.partial(contraction.matmul, precision=None)
    return complex_(elementwise.subtract(product(x, u), product(y, v)), elementwise.add(product(x, v), product(y, u)))


def _cast(z: Node, dtype: DType) -> Node:
    if dtype.is_complex:
        return complex_(elementwise.cast(real(z), dtype.part), elementwise.cast(imag(z), dtype.part))
    if dtype is dtypes.bool_:
        return elementwise.logical_or(elementwise.cast(real(z), dtype), elementwise.cast(imag(z), dtype))
    raise refusal(
        "astype",
        "a complex number has no real value",
        found=describe([z]),
        expected="complex64, complex128 or bool",
        hint="Take `engine.real(x)`, `engine.imag(x)` or `engine.abs(x)` first.",
    )


def _product(z: Node, axes: tuple[int, ...]) -> Node:
    """Multiplies the two halves until one element is left: complex products have no kernel."""
    kept = tuple(axis for axis in range(z.ndim) if axis not in axes)
    moved = movement.permute(z, kept + axes)
    shape = tuple(z.shape[axis] for axis in kept)
    count = z.size // math.prod(shape) if z.size else 0
    rows = movement.reshape(moved, (*shape, count)) if z.size else None
    while count > 1 and rows is not None:
        low, steps = (0,) * len(shape), (1,) * (len(shape) + 1)
        half = count // 2
        first, second, rest = (
            movement.slice_(rows, (*low, start), (*shape, stop), steps)
            for start, stop in ((0, half), (half, 2 * half), (2 * half, count))
        )
        rows, count = movement.concatenate([_multiply(first, second), rest], len(shape)), count - half
    return full(shape, 1.0, z.dtype) if rows is None else movement.reshape(rows, shape)


def _running_product(z: Node, axis: int) -> Node:
    """Cumulative products by doubling (Hillis & Steele 1986): log2(extent) steps."""
    nothing, step = (0,) * z.ndim, 1
    while step < z.shape[axis]:
        stop = tuple(extent - step if each == axis else extent for each, extent in enumerate(z.shape))
        low = tuple(step if each == axis else 0 for each in range(z.ndim))
        earlier = movement.pad(movement.slice_(z, nothing, stop, (1,) * z.ndim), low, nothing, nothing, 1)
        z, step = _multiply(z, earlier), 2 * step
    return z


def _both(build: Callable[..., Node], join: Callable[[Node, Node], Node]) -> Callable[..., Node]:
    """Applies the predicate `build` to the real and the imaginary part, and combines the results with `join`."""
    return lambda *values: join(build(*map(real, values)), build(*map(imag, values)))


OF_COMPLEX.update(
    {
        "complex": complex_,
        "negative": _by_parts(elementwise.negative),
        "add": _by_parts(elementwise.add, 2),
        "subtract": _by_parts(elementwise.subtract, 2),
        "multiply": _multiply,
        "divide": _divide,
        "round": _by_parts(elementwise.round),
        "abs": lambda z: hypot(real(z), imag(z)),
        "equal": _both(elementwise.equal, elementwise.logical_and),
        "not_equal": _both(elementwise.not_equal, elementwise.logical_or),
        "isfinite": _both(elementwise.isfinite, elementwise.logical_and),
        "isinf": _both(elementwise.isinf, elementwise.logical_or),
        "isnan": _both(elementwise.isnan, elementwise.logical_or),
        "cast": _cast,
        "matmul": _matmul,
        "reduce_sum": _by_parts(reduction.reduce_sum),
        "reduce_prod": _product,
        "cumulative_prod": _running_product,
        "cumulative_sum": _by_parts(reduction.cumulative_sum),
        "scatter_add": _by_parts(index.scatter_add),
        "scatter_add_along": _by_parts(index.scatter_add_along),
        "pad": lambda z, low, high, interior, value: complex_(
            movement.pad(real(z), low, high, interior, complex(value).real),
            movement.pad(imag(z), low, high, interior, complex(value).imag),
        ),
    }
)

"""The standard's extension `linalg`: products and parts, norms and ranks, pseudo-inverses, and the functions of the
modules `matrices` and `decompositions`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.functions import elementwise as e
from trainer.engine.functions import reductions as r
from trainer.engine.functions.creation import eye
from trainer.engine.functions.decompositions import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from trainer.engine.functions.elementwise import where
from trainer.engine.functions.linear import matmul, matrix_transpose, tensordot, vecdot
from trainer.engine.functions.matrices import (
    Tensors,
    adjoint_of,
    det,
    diagonal,
    floats_of,
    inv,
    matrices_of,
    slogdet,
    solve,
)
from trainer.engine.functions.movement import broadcast_arrays, broadcast_to, expand_dims, moveaxis, reshape, stack
from trainer.engine.functions.numpy_calls import numpy_call
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.tensor import Tensor, as_tensor

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

Axis = int | Sequence[int] | None


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The cross products of vectors of three elements along `axis` of each operand; other axes broadcast, as in NumPy.

    The result has the promoted dtype.

    Raises:
        TrainerError: the extent along `axis` is not 3, the other axes don't broadcast, or dtypes can't be promoted.
    """
    a, b = as_tensor(x1, operation="cross"), as_tensor(x2, operation="cross")
    if not (-min(a.ndim, b.ndim) <= axis < min(a.ndim, b.ndim)) or a.shape[axis] != 3 or b.shape[axis] != 3:
        raise refusal("cross", "takes vectors of three", found=f"{describe([a, b])}, axis {axis}", expected="extent 3")
    a, b = broadcast_arrays(moveaxis(a, axis, -1), moveaxis(b, axis, -1))
    (a0, a1, a2), (b0, b1, b2) = ([each[..., n] for n in range(3)] for each in (a, b))
    return moveaxis(stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]), 0, axis)


def outer(x1: Any, x2: Any, /) -> Tensor:
    """The products of each element of vector x1 with each of vector x2: [N, M], in the promoted dtype.

    Raises:
        TrainerError: an operand is not a vector, or dtypes can't be promoted.
    """
    a, b = as_tensor(x1, operation="outer"), as_tensor(x2, operation="outer")
    if a.ndim != 1 or b.ndim != 1:
        raise refusal("outer", "takes two vectors", found=describe([a, b]), expected="one axis each")
    return reshape(a, (-1, 1)) * b


def trace(x: Any, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sum along diagonal `offset`, in the dtype of `sum`. [..., M, N] gives [...].

    Raises:
        TrainerError: x has fewer than two axes.
    """
    return r.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def matrix_power(x: Any, n: int, /) -> Tensor:
    """Square matrices to the power `n`; a negative power is a power of the inverses.

    x is [..., N, N] of a floating-point or complex dtype; the result has the same shape and dtype.

    Raises:
        TrainerError: x does not hold square matrices, or its dtype is neither floating-point nor complex; `n` is
            negative and a matrix is singular (raised when the value is computed).
    """
    tensor = matrices_of("matrix_power", x, square=True)
    base, rest = (inv(tensor), -n) if n < 0 else (tensor, n)
    result = None
    while rest:
        if rest % 2:
            result = base if result is None else matmul(result, base)
        rest //= 2
        base = matmul(base, base) if rest else base
    return broadcast_to(eye(tensor.shape[-1], dtype=tensor.dtype), tensor.shape) if result is None else result


def vector_norm(x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """(sum |x|^ord)^(1/ord) over `axis` (None: all); maximum or minimum of |x| for ±inf, number of nonzeros for 0.

    The result has the real floating-point dtype of x's parts.

    Raises:
        TrainerError: the axis is out of range, or x is neither floating-point nor complex.
    """
    size = e.abs(floats_of("vector_norm", x))
    if ord in (math.inf, -math.inf):
        return (r.max if ord > 0 else r.min)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return r.count_nonzero(size, axis=axis, keepdims=keepdims).astype(size.dtype)
    if ord == 1:
        return r.sum(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return _root(r.sum(size * size, axis=axis, keepdims=keepdims))
    return r.sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """The Frobenius ("fro"), nuclear ("nuc") or operator norm (1, 2, inf; minima for -1, -2, -inf) of each matrix.

    [..., M, N] gives [...], or [..., 1, 1] with `keepdims`, in the real floating-point dtype of x's parts.

    Raises:
        TrainerError: the norm is unknown, or x does not hold floating-point or complex matrices.
    """
    tensor = matrices_of("matrix_norm", x)
    axes = (-2, -1)
    if ord in ("fro", None):
        return vector_norm(tensor, axis=axes, keepdims=keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        sums = r.sum(e.abs(tensor), axis=-2 if abs(ord) == 1 else -1, keepdims=True)
        return (r.max if ord > 0 else r.min)(sums, axis=axes, keepdims=keepdims)
    if ord not in (2, -2, "nuc"):
        expected = "'fro', 'nuc', 1, 2, inf or their negatives"
        raise refusal("matrix_norm", "no such norm", found=repr(ord), expected=expected)
    values = expand_dims(svdvals(tensor), axis=-1)
    reduce = r.sum if ord == "nuc" else r.max if ord == 2 else r.min
    return reduce(values, axis=axes, keepdims=keepdims)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The number of singular values above `rtol` times the largest: int64. None: max(M, N) times the dtype's epsilon.

    [..., M, N] gives [...].

    Raises:
        TrainerError: x does not hold floating-point or complex matrices.
    """
    tensor = matrices_of("matrix_rank", x)
    values = svdvals(tensor)
    if not values.shape[-1]:
        return r.count_nonzero(values, axis=-1)
    limit = _tolerance(tensor, rtol) * r.max(values, axis=-1)
    return r.count_nonzero(values > expand_dims(limit, axis=-1), axis=-1)


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverses [..., N, M]; singular values below `rtol` times the largest count as zero.

    The result has x's floating-point or complex dtype.

    Raises:
        TrainerError: x does not hold matrices, or its dtype is neither floating-point nor complex.
    """
    tensor = matrices_of("pinv", x)
    limit = _tolerance(tensor, rtol)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        """Golub & Pereyra (1973), equation 4.12."""
        a, p, dh = inputs[0], outputs[0], adjoint_of(cotangents[0])
        ph = adjoint_of(p)
        middle = adjoint_of(matmul(p, matmul(dh, p)))
        left = matmul(matmul(ph, p), dh - matmul(dh, matmul(p, a)))
        right = matmul(dh - matmul(a, matmul(p, dh)), matmul(p, ph))
        return [left + right - middle]

    shape = (*tensor.shape[:-2], tensor.shape[-1], tensor.shape[-2])
    if isinstance(limit, Tensor):
        return _pinv_of(tensor, limit)
    return numpy_call("linalg.pinv", [tensor], [(shape, tensor.dtype)], gradient, rcond=limit)[0]


def _pinv_of(tensor: Tensor, limit: Tensor) -> Tensor:
    """Computes pseudo-inverses from the singular values, with a limit for each matrix."""
    u, s, vh = svd(tensor, full_matrices=False)
    kept = s > expand_dims(limit * r.max(s, axis=-1), axis=-1)
    inverse = where(kept, 1 / where(kept, s, 1.0), 0.0).astype(tensor.dtype)
    return matmul(adjoint_of(vh) * expand_dims(inverse, axis=-2), adjoint_of(u))


def _root(x: Tensor) -> Tensor:
    """The square root, with the derivative 0 at 0."""
    is_zero = e.equal(x, 0.0)
    return where(is_zero, 0.0, e.sqrt(where(is_zero, 1.0, x)))


def _tolerance(tensor: Tensor, rtol: Any) -> Any:
    if rtol is None:
        return max(tensor.shape[-2:]) * float(np.finfo(tensor.dtype.part.storage).eps)
    return rtol.astype(tensor.dtype.part) if isinstance(rtol, Tensor) else float(rtol)

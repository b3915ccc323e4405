"""Linear algebra of the standard's extension. Decompositions are NumPy's (LAPACK) as host calls, with derivatives.

Matrices are the last two axes, others are batches; float32, float64, complex64 or complex128. Derivatives are those of
Giles (2008, "Collected matrix derivative results") and Walter & Lehmann (2010), written in tensors, so second ones
exist. Where they do not exist, at equal eigenvalues or singular values, infinite terms count as zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trainer.engine.functions import elementwise as e
from trainer.engine.functions import reductions as r
from trainer.engine.functions.creation import eye
from trainer.engine.functions.elementwise import conj, where
from trainer.engine.functions.linear import matmul, matrix_transpose, tensordot, vecdot
from trainer.engine.functions.movement import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    moveaxis,
    reshape,
    squeeze,
    stack,
    tril,
)  # fmt: skip
from trainer.engine.functions.numpy_calls import numpy_call
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import DTypeError, describe, refusal
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

Tensors = Sequence[Tensor]
Axis = int | Sequence[int] | None


class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


# --- products and parts -----------------------------------------------------------------------------------------------


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The cross products of vectors of three elements along `axis`, which counts from the end; others broadcast.

    In the dtype in which both meet.

    Raises:
        TrainerError: the extent along `axis` is not 3, the other axes don't broadcast, or dtypes don't meet.
    """
    a, b = as_tensor(x1, operation="cross"), as_tensor(x2, operation="cross")
    if not (-min(a.ndim, b.ndim) <= axis < min(a.ndim, b.ndim)) or a.shape[axis] != 3 or b.shape[axis] != 3:
        raise refusal("cross", "takes vectors of three", found=f"{describe([a, b])}, axis {axis}", expected="extent 3")
    a, b = broadcast_arrays(a, b)
    (a0, a1, a2), (b0, b1, b2) = ([moveaxis(each, axis, 0)[n] for n in range(3)] for each in (a, b))
    return moveaxis(stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]), 0, axis)


def outer(x1: Any, x2: Any, /) -> Tensor:
    """The products of each element of vector x1 with each of vector x2: [N, M]. In the dtype in which both meet.

    Raises:
        TrainerError: one of both is no vector, or dtypes don't meet.
    """
    a, b = as_tensor(x1, operation="outer"), as_tensor(x2, operation="outer")
    if a.ndim != 1 or b.ndim != 1:
        raise refusal("outer", "takes two vectors", found=describe([a, b]), expected="one axis each")
    return reshape(a, (-1, 1)) * b


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """Diagonal `offset` of each matrix (above the main one where it is positive), along a last axis.

    [..., M, N] of any dtype gives [..., K].

    Raises:
        TrainerError: x has fewer than two axes.
    """
    tensor = _matrices("diagonal", x, of_floats=False)
    rows, columns = tensor.shape[-2:]
    start = offset if offset >= 0 else -offset * columns
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    flat = reshape(tensor, (*tensor.shape[:-2], rows * columns))
    return flat[..., slice(start, start + (count - 1) * (columns + 1) + 1 if count else start, columns + 1)]


def trace(x: Any, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sum along diagonal `offset`, in the dtype that `sum` has. [..., M, N] gives [...].

    Raises:
        TrainerError: x has fewer than two axes.
    """
    return r.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def matrix_power(x: Any, n: int, /) -> Tensor:
    """Square matrices to the power `n`, of their inverses where it is negative.

    [..., N, N] of a floating-point or complex dtype, which the result has.

    Raises:
        TrainerError: x is no square matrices, or of another dtype; when it is computed, of a singular matrix where `n`
            is negative.
    """
    tensor = _matrices("matrix_power", x, square=True)
    base, rest = (inv(tensor), -n) if n < 0 else (tensor, n)
    result = None
    while rest:
        if rest % 2:
            result = base if result is None else matmul(result, base)
        rest //= 2
        base = matmul(base, base) if rest else base
    return broadcast_to(eye(tensor.shape[-1], dtype=tensor.dtype), tensor.shape) if result is None else result


# --- norms ------------------------------------------------------------------------------------------------------------


def vector_norm(x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """(sum |x|^ord)^(1/ord) over `axis` (None: all); extremes for +-infinity, the count of non-zeros for 0.

    Of the real floating-point dtype of x's parts.

    Raises:
        TrainerError: there is no such axis, or x is neither floating-point nor complex.
    """
    size = e.abs(_floats("vector_norm", x))
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
        TrainerError: there is no such norm, or x is no floating-point or complex matrices.
    """
    tensor = _matrices("matrix_norm", x)
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
    """How many singular values exceed `rtol` times the largest: int64. None is max(M, N) times the dtype's epsilon.

    [..., M, N] gives [...].

    Raises:
        TrainerError: x is no floating-point or complex matrices.
    """
    tensor = _matrices("matrix_rank", x)
    values = svdvals(tensor)
    if not values.shape[-1]:
        return r.count_nonzero(values, axis=-1)
    limit = _tolerance(tensor, rtol) * r.max(values, axis=-1)
    return r.count_nonzero(values > expand_dims(limit, axis=-1), axis=-1)


# --- systems and determinants -----------------------------------------------------------------------------------------


def inv(x: Any, /) -> Tensor:
    """The inverses of square matrices. [..., N, N] of a floating-point or complex dtype, which the result has.

    Raises:
        TrainerError: the matrix is singular (raised when the value is computed).
    """
    tensor = _matrices("inv", x, square=True)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        adjoint = _adjoint(outputs[0])
        return [-matmul(adjoint, matmul(cotangents[0], adjoint))]

    return numpy_call("linalg.inv", [tensor], [(tensor.shape, tensor.dtype)], gradient)[0]


def solve(x1: Any, x2: Any, /) -> Tensor:
    """The solution of x1 y = x2: [..., N, N] and [..., N, K], or a vector [N]. Both meet in one dtype.

    Raises:
        TrainerError: shapes don't match; or the matrix is singular (raised when the value is computed).
    """
    a, b = _matrices("solve", x1, square=True), _floats("solve", x2)
    is_vector = b.ndim == 1
    b = expand_dims(b, axis=-1) if is_vector else b
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise refusal("solve", "shapes don't fit", found=describe([a, b]), expected="[..., N, N] and [..., N, K]")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    dtype = promoted("solve", [a.dtype, b.dtype])
    a = broadcast_to(a.astype(dtype), (*batch, *a.shape[-2:]))
    b = broadcast_to(b.astype(dtype), (*batch, *b.shape[-2:]))
    result = _solved(a, b)
    return squeeze(result, axis=-1) if is_vector else result


def _solved(a: Tensor, b: Tensor) -> Tensor:
    """`solve` of matrices of one dtype and batch."""

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        back = _solved(_adjoint(inputs[0]), cotangents[0])
        return [-matmul(back, _adjoint(outputs[0])), back]

    return numpy_call("linalg.solve", [a, b], [(b.shape, b.dtype)], gradient)[0]


def det(x: Any, /) -> Tensor:
    """The determinants of square matrices; their derivatives need inverses.

    [..., N, N] of a floating-point or complex dtype gives [...] of that dtype.

    Raises:
        TrainerError: x is no square matrices, or of another dtype.
    """
    tensor = _matrices("det", x, square=True)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        return [_over_matrices(cotangents[0] * conj(outputs[0])) * _adjoint(inv(inputs[0]))]

    return numpy_call("linalg.det", [tensor], [(tensor.shape[:-2], tensor.dtype)], gradient)[0]


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of each determinant (its phase if complex) and the logarithm of its absolute value.

    [..., N, N] of a floating-point or complex dtype gives two [...], the logarithm real.

    Raises:
        TrainerError: x is no square matrices, or of another dtype.
    """
    tensor = _matrices("slogdet", x, square=True)
    dtype = tensor.dtype

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor | None]:
        sign, change = cotangents
        factor = None if change is None else change.astype(dtype)
        if sign is not None and dtype.is_complex:
            turn = -e.imag(conj(sign) * outputs[0]) * 1j
            factor = turn if factor is None else factor + turn
        return [None if factor is None else _over_matrices(factor) * _adjoint(inv(inputs[0]))]

    batch = tensor.shape[:-2]
    results = [(batch, tensor.dtype), (batch, tensor.dtype.part)]
    return SlogdetResult(*numpy_call("linalg.slogdet", [tensor], results, gradient))


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverses [..., N, M]; singular values below `rtol` times the largest count as zero.

    Of x's floating-point or complex dtype.

    Raises:
        TrainerError: x is no matrices, or of another dtype.
    """
    tensor = _matrices("pinv", x)
    limit = _tolerance(tensor, rtol)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        """Golub & Pereyra (1973), equation 4.12."""
        a, p, dh = inputs[0], outputs[0], _adjoint(cotangents[0])
        ph = _adjoint(p)
        middle = _adjoint(matmul(p, matmul(dh, p)))
        left = matmul(matmul(ph, p), dh - matmul(dh, matmul(p, a)))
        right = matmul(dh - matmul(a, matmul(p, dh)), matmul(p, ph))
        return [left + right - middle]

    shape = (*tensor.shape[:-2], tensor.shape[-1], tensor.shape[-2])
    if isinstance(limit, Tensor):
        return _pinv_of(tensor, limit)
    return numpy_call("linalg.pinv", [tensor], [(shape, tensor.dtype)], gradient, rcond=limit)[0]


def _pinv_of(tensor: Tensor, limit: Tensor) -> Tensor:
    """By the singular values, with a limit for each matrix."""
    u, s, vh = svd(tensor, full_matrices=False)
    kept = s > expand_dims(limit * r.max(s, axis=-1), axis=-1)
    inverse = where(kept, 1 / where(kept, s, 1.0), 0.0).astype(tensor.dtype)
    return matmul(_adjoint(vh) * expand_dims(inverse, axis=-2), _adjoint(u))


# --- decompositions ---------------------------------------------------------------------------------------------------


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The triangular L with L Lᴴ = x of Hermitian positive-definite matrices, or Lᴴ with `upper`.

    [..., N, N] of a floating-point or complex dtype, which the result has.

    Raises:
        TrainerError: the matrix is not positive definite (raised when the value is computed).
    """
    tensor = _matrices("cholesky", x, square=True)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        adjoint = _adjoint(outputs[0])
        middle = tril(matmul(adjoint, cotangents[0]))
        middle = middle - 0.5 * _diagonal_of(diagonal(middle))
        return [_hermitian(_adjoint(_solved(adjoint, _adjoint(_solved(adjoint, middle)))))]

    (lower,) = numpy_call("linalg.cholesky", [tensor], [(tensor.shape, tensor.dtype)], gradient)
    return _adjoint(lower) if upper else lower


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """Q with orthonormal columns and upper triangular R with Q R = x; [M, K] and [K, N], K = min(M, N).

    With `mode` "complete" Q is [M, M] and R [M, N]: that has no derivative where M exceeds N. Of x's floating-point or
    complex dtype.

    Raises:
        TrainerError: there is no such mode, or x is no floating-point or complex matrices.
    """
    tensor = _matrices("qr", x)
    *batch, rows, columns = tensor.shape
    if mode not in ("reduced", "complete"):
        raise refusal("qr", "no such mode", found=repr(mode), expected="'reduced' or 'complete'")
    inner = rows if mode == "complete" else min(rows, columns)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        if inner > columns:
            raise _no_derivative("qr", "complete decompositions of tall matrices", 'mode="reduced"')
        (q, triangle), (dq, dr) = outputs, _filled(outputs, cotangents)
        if rows >= columns:
            return [_of_qr(q, triangle, dq, dr)]
        rest = inputs[0][..., rows:]
        dq = dq + matmul(rest, _adjoint(dr[..., rows:]))
        return [concat([_of_qr(q, triangle[..., :rows], dq, dr[..., :rows]), matmul(q, dr[..., rows:])], axis=-1)]

    results = [((*batch, rows, inner), tensor.dtype), ((*batch, inner, columns), tensor.dtype)]
    return QRResult(*numpy_call("linalg.qr", [tensor], results, gradient, mode=mode))


def _of_qr(q: Tensor, triangle: Tensor, dq: Tensor, dr: Tensor) -> Tensor:
    """Of matrices at least as tall as wide."""
    middle = matmul(triangle, _adjoint(dr)) - matmul(_adjoint(dq), q)
    below = tril(middle, k=-1)
    symmetric = below + _adjoint(below) + _diagonal_of(e.real(diagonal(middle)).astype(middle.dtype))
    return _adjoint(_solved(triangle, _adjoint(dq + matmul(q, symmetric))))


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues, in ascending order, and eigenvectors, as columns, of Hermitian matrices; only the lower triangle is
    read.

    [..., N, N] gives [..., N], real, and [..., N, N] of x's floating-point or complex dtype.

    Raises:
        TrainerError: x is no square matrices, or of another dtype.
    """
    tensor = _matrices("eigh", x, square=True)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        (w, v), (dw, dv) = outputs, cotangents
        middle: Any = 0.0
        if dv is not None:
            middle = matmul(_adjoint(v), dv) * _inverse_gaps(w).astype(v.dtype)
        if dw is not None:
            middle = middle + _diagonal_of(dw.astype(v.dtype))
        return [_hermitian(matmul(v, matmul(middle, _adjoint(v))))]

    results = [(tensor.shape[:-1], tensor.dtype.part), (tensor.shape, tensor.dtype)]
    return EighResult(*numpy_call("linalg.eigh", [tensor], results, gradient))


def eigvalsh(x: Any, /) -> Tensor:
    """The eigenvalues of `eigh`. [..., N, N] gives [..., N], real floating-point.

    Raises:
        TrainerError: as `eigh`.
    """
    return eigh(x).eigenvalues


def eig(x: Any, /) -> EigResult:
    """Eigenvalues and eigenvectors, as columns of norm 1, of square matrices: complex.

    [..., N, N] gives [..., N] and [..., N, N].

    Raises:
        TrainerError: x is no square matrices, or of another dtype than a floating-point or complex one.
    """
    tensor = _matrices("eig", x, square=True)
    wide = tensor.dtype.with_imaginary

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        (w, v), (dw, dv) = outputs, cotangents
        adjoint = _adjoint(v)
        middle: Any = 0.0
        if dv is not None:
            product = matmul(adjoint, dv)
            length = e.real(diagonal(product)).astype(wide)
            middle = (product - matmul(adjoint, v * expand_dims(length, axis=-2))) * conj(_inverse_gaps(w))
        if dw is not None:
            middle = middle + _diagonal_of(dw)
        found = _solved(adjoint, matmul(middle, adjoint))
        return [found if inputs[0].dtype.is_complex else e.real(found)]

    results = [(tensor.shape[:-1], wide), (tensor.shape, wide)]
    return EigResult(*numpy_call("linalg.eig", [tensor], results, gradient))


def eigvals(x: Any, /) -> Tensor:
    """The eigenvalues of `eig`. [..., N, N] gives [..., N], complex.

    Raises:
        TrainerError: as `eig`.
    """
    return eig(x).eigenvalues


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """U, singular values in descending order, and Vᴴ: [..., M, K], [..., K], [..., K, N] with K = min(M, N).

    With `full_matrices` U is [..., M, M] and Vᴴ [..., N, N]: of matrices that are not square they have no derivative.
    Singular values are real, U and Vᴴ of x's floating-point or complex dtype.

    Raises:
        TrainerError: x is no floating-point or complex matrices.
    """
    tensor = _matrices("svd", x)
    *batch, rows, columns = tensor.shape
    inner = min(rows, columns)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        is_cut = full_matrices and rows != columns
        if is_cut and (cotangents[0] is not None or cotangents[2] is not None):
            raise _no_derivative("svd", "full matrices", "full_matrices=False")
        return [_of_svd(outputs[0][..., :inner], outputs[1], outputs[2][..., :inner, :], *cotangents)]

    sizes = (rows, columns) if full_matrices else (inner, inner)
    results = [
        ((*batch, rows, sizes[0]), tensor.dtype),
        ((*batch, inner), tensor.dtype.part),
        ((*batch, sizes[1], columns), tensor.dtype),
    ]
    return SVDResult(*numpy_call("linalg.svd", [tensor], results, gradient, full_matrices=full_matrices))


def _of_svd(u: Tensor, s: Tensor, vh: Tensor, du: Any, ds: Any, dvh: Any) -> Tensor:
    wide = s.astype(u.dtype)
    column, row = expand_dims(wide, axis=-2), expand_dims(wide, axis=-1)
    uh, v = _adjoint(u), _adjoint(vh)
    gaps = _inverse_gaps(s * s).astype(u.dtype)
    total: Any = 0.0 if ds is None else matmul(u, matmul(_diagonal_of(ds.astype(u.dtype)), vh))
    if du is not None:
        inner = matmul(uh, du)
        skew = inner - _adjoint(inner)
        middle = skew * gaps * column
        if u.dtype.is_complex:
            middle = middle + _diagonal_of(0.5 * diagonal(skew) / wide)
        outside = (du - matmul(u, inner)) / column
        total = total + matmul(matmul(u, middle) + outside, vh)
    if dvh is not None:
        dv = _adjoint(dvh)
        inner = matmul(vh, dv)
        middle = row * ((inner - _adjoint(inner)) * gaps)
        outside = _adjoint((dv - matmul(v, inner)) / column)
        total = total + matmul(u, matmul(middle, vh) + outside)
    return total


def svdvals(x: Any, /) -> Tensor:
    """The singular values of each matrix in descending order: [..., min(M, N)]. Real floating-point.

    Raises:
        TrainerError: as `svd`.
    """
    return svd(x, full_matrices=False).S


# --- shared helpers --------------------------------------------------------------------------------------------------


def _floats(name: str, x: Any) -> Tensor:
    tensor = as_tensor(x, operation=name)
    if not tensor.dtype.is_inexact or tensor.dtype.is_half:
        expected = "float32, float64, complex64 or complex128"
        raise refusal(
            name, f"does not take {tensor.dtype}", found=describe([tensor]), expected=expected, kind=DTypeError
        )
    return tensor


def _matrices(name: str, x: Any, *, square: bool = False, of_floats: bool = True) -> Tensor:
    tensor = _floats(name, x) if of_floats else as_tensor(x, operation=name)
    if tensor.ndim < 2 or (square and tensor.shape[-1] != tensor.shape[-2]):
        expected = f"[..., {'N, N' if square else 'M, N'}]"
        raise refusal(name, f"takes {'square ' if square else ''}matrices", found=describe([tensor]), expected=expected)
    return tensor


def _no_derivative(name: str, what: str, instead: str) -> Exception:
    return refusal("gradients", f"{name} of {what} has no derivative", hint=f"Use {instead}.")


def _adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose."""
    return conj(x).mT


def _hermitian(x: Tensor) -> Tensor:
    return 0.5 * (x + _adjoint(x))


def _over_matrices(x: Tensor) -> Tensor:
    """A number for each matrix, to be broadcast over it."""
    return reshape(x, (*x.shape, 1, 1))


def _diagonal_of(x: Tensor) -> Tensor:
    """Diagonal matrices of vectors."""
    return expand_dims(x, axis=-1) * eye(x.shape[-1], dtype=x.dtype)


def _inverse_gaps(w: Tensor) -> Tensor:
    """1 / (w[j] - w[i]), and 0 where they are equal."""
    gaps = expand_dims(w, axis=-2) - expand_dims(w, axis=-1)
    is_equal = e.equal(gaps, 0.0)
    return where(is_equal, 0.0, 1 / where(is_equal, 1.0, gaps))


def _root(x: Tensor) -> Tensor:
    """The square root, with the derivative 0 at 0."""
    is_zero = e.equal(x, 0.0)
    return where(is_zero, 0.0, e.sqrt(where(is_zero, 1.0, x)))


def _filled(outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
    return [output * 0.0 if given is None else given for output, given in zip(outputs, cotangents, strict=True)]


def _tolerance(tensor: Tensor, rtol: Any) -> Any:
    if rtol is None:
        return max(tensor.shape[-2:]) * float(np.finfo(tensor.dtype.part.storage).eps)
    return rtol.astype(tensor.dtype.part) if isinstance(rtol, Tensor) else float(rtol)

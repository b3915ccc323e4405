"""Matrix decompositions: those of NumPy (LAPACK) as host calls, with derivatives.

The derivatives are those of Giles (2008, "Collected matrix derivative results") and Walter & Lehmann (2010). They are
written in tensors, so second derivatives exist. Where a derivative does not exist, at equal eigenvalues or singular
values, infinite terms count as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trainer.engine.functions import elementwise as e
from trainer.engine.functions.elementwise import conj, where
from trainer.engine.functions.linear import matmul
from trainer.engine.functions.matrices import Tensors, adjoint_of, diagonal, diagonal_of, matrices_of, solved
from trainer.engine.functions.movement import concat, expand_dims, tril
from trainer.engine.functions.numpy_calls import numpy_call
from trainer.engine.graph.errors import refusal
from trainer.engine.tensor import Tensor


class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The triangular L with L Lᴴ = x for Hermitian positive-definite matrices, or Lᴴ with `upper`.

    x is [..., N, N] of a floating-point or complex dtype; the result has the same shape and dtype.

    Raises:
        TrainerError: the matrix is not positive definite (raised when the value is computed).
    """
    tensor = matrices_of("cholesky", x, square=True)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        adjoint = adjoint_of(outputs[0])
        middle = tril(matmul(adjoint, cotangents[0]))
        middle = middle - 0.5 * diagonal_of(diagonal(middle))
        return [_hermitian(adjoint_of(solved(adjoint, adjoint_of(solved(adjoint, middle)))))]

    (lower,) = numpy_call("linalg.cholesky", [tensor], [(tensor.shape, tensor.dtype)], gradient)
    return adjoint_of(lower) if upper else lower


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """Q with orthonormal columns and upper triangular R with Q R = x; [M, K] and [K, N], K = min(M, N).

    With `mode="complete"`, Q is [M, M] and R [M, N], without a derivative if M exceeds N. Both have x's floating-point
    or complex dtype.

    Raises:
        TrainerError: the mode is unknown, or x does not hold floating-point or complex matrices.
    """
    tensor = matrices_of("qr", x)
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
        dq = dq + matmul(rest, adjoint_of(dr[..., rows:]))
        return [concat([_of_qr(q, triangle[..., :rows], dq, dr[..., :rows]), matmul(q, dr[..., rows:])], axis=-1)]

    results = [((*batch, rows, inner), tensor.dtype), ((*batch, inner, columns), tensor.dtype)]
    return QRResult(*numpy_call("linalg.qr", [tensor], results, gradient, mode=mode))


def _of_qr(q: Tensor, triangle: Tensor, dq: Tensor, dr: Tensor) -> Tensor:
    """The gradient for matrices at least as tall as wide."""
    middle = matmul(triangle, adjoint_of(dr)) - matmul(adjoint_of(dq), q)
    below = tril(middle, k=-1)
    symmetric = below + adjoint_of(below) + diagonal_of(e.real(diagonal(middle)).astype(middle.dtype))
    return adjoint_of(solved(triangle, adjoint_of(dq + matmul(q, symmetric))))


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues, in ascending order, and eigenvectors, as columns, of Hermitian matrices; only the lower triangle is
    read.

    For x [..., N, N], eigenvalues are real, [..., N]; eigenvectors are [..., N, N] of x's floating-point or complex
    dtype.

    Raises:
        TrainerError: x does not hold square matrices, or its dtype is neither floating-point nor complex.
    """
    tensor = matrices_of("eigh", x, square=True)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        (w, v), (dw, dv) = outputs, cotangents
        middle: Any = 0.0
        if dv is not None:
            middle = matmul(adjoint_of(v), dv) * _inverse_gaps(w).astype(v.dtype)
        if dw is not None:
            middle = middle + diagonal_of(dw.astype(v.dtype))
        return [_hermitian(matmul(v, matmul(middle, adjoint_of(v))))]

    results = [(tensor.shape[:-1], tensor.dtype.part), (tensor.shape, tensor.dtype)]
    return EighResult(*numpy_call("linalg.eigh", [tensor], results, gradient))


def eigvalsh(x: Any, /) -> Tensor:
    """The eigenvalues of `eigh`. [..., N, N] gives [..., N], real floating-point.

    Raises:
        TrainerError: see `eigh`.
    """
    return eigh(x).eigenvalues


def eig(x: Any, /) -> EigResult:
    """Complex eigenvalues and eigenvectors (columns of norm 1) of square matrices.

    [..., N, N] gives [..., N] and [..., N, N].

    Raises:
        TrainerError: x does not hold square matrices, or its dtype is neither floating-point nor complex.
    """
    tensor = matrices_of("eig", x, square=True)
    wide = tensor.dtype.with_imaginary

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        (w, v), (dw, dv) = outputs, cotangents
        adjoint = adjoint_of(v)
        middle: Any = 0.0
        if dv is not None:
            product = matmul(adjoint, dv)
            length = e.real(diagonal(product)).astype(wide)
            middle = (product - matmul(adjoint, v * expand_dims(length, axis=-2))) * conj(_inverse_gaps(w))
        if dw is not None:
            middle = middle + diagonal_of(dw)
        found = solved(adjoint, matmul(middle, adjoint))
        return [found if inputs[0].dtype.is_complex else e.real(found)]

    results = [(tensor.shape[:-1], wide), (tensor.shape, wide)]
    return EigResult(*numpy_call("linalg.eig", [tensor], results, gradient))


def eigvals(x: Any, /) -> Tensor:
    """The eigenvalues of `eig`. [..., N, N] gives [..., N], complex.

    Raises:
        TrainerError: see `eig`.
    """
    return eig(x).eigenvalues


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """U, singular values in descending order, and Vᴴ: [..., M, K], [..., K], [..., K, N] with K = min(M, N).

    With `full_matrices`, U is [..., M, M] and Vᴴ [..., N, N]; for matrices that are not square they have no derivative.
    Singular values are real; U and Vᴴ have x's floating-point or complex dtype.

    Raises:
        TrainerError: x does not hold floating-point or complex matrices.
    """
    tensor = matrices_of("svd", x)
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
    uh, v = adjoint_of(u), adjoint_of(vh)
    gaps = _inverse_gaps(s * s).astype(u.dtype)
    total: Any = 0.0 if ds is None else matmul(u, matmul(diagonal_of(ds.astype(u.dtype)), vh))
    if du is not None:
        inner = matmul(uh, du)
        skew = inner - adjoint_of(inner)
        middle = skew * gaps * column
        if u.dtype.is_complex:
            middle = middle + diagonal_of(0.5 * diagonal(skew) / wide)
        outside = (du - matmul(u, inner)) / column
        total = total + matmul(matmul(u, middle) + outside, vh)
    if dvh is not None:
        dv = adjoint_of(dvh)
        inner = matmul(vh, dv)
        middle = row * ((inner - adjoint_of(inner)) * gaps)
        outside = adjoint_of((dv - matmul(v, inner)) / column)
        total = total + matmul(u, matmul(middle, vh) + outside)
    return total


def svdvals(x: Any, /) -> Tensor:
    """The singular values of each matrix in descending order: [..., min(M, N)], real floating-point.

    Raises:
        TrainerError: see `svd`.
    """
    return svd(x, full_matrices=False).S


def _no_derivative(name: str, what: str, instead: str) -> Exception:
    return refusal("gradients", f"{name} of {what} has no derivative", hint=f"Use {instead}.")


def _hermitian(x: Tensor) -> Tensor:
    return 0.5 * (x + adjoint_of(x))


def _inverse_gaps(w: Tensor) -> Tensor:
    """1 / (w[j] - w[i]), or 0 where both are equal."""
    gaps = expand_dims(w, axis=-2) - expand_dims(w, axis=-1)
    is_equal = e.equal(gaps, 0.0)
    return where(is_equal, 0.0, 1 / where(is_equal, 1.0, gaps))


def _filled(outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
    return [output * 0.0 if given is None else given for output, given in zip(outputs, cotangents, strict=True)]

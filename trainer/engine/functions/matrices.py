"""Parts, inverses, linear systems and determinants of matrices, computed by NumPy (LAPACK) in host calls.

The last two axes hold matrices, the others are batch axes. Dtypes are float32, float64, complex64 and complex128.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trainer.engine.functions import elementwise as e
from trainer.engine.functions.creation import eye
from trainer.engine.functions.elementwise import conj
from trainer.engine.functions.linear import matmul
from trainer.engine.functions.movement import broadcast_shapes, broadcast_to, expand_dims, reshape, squeeze
from trainer.engine.functions.numpy_calls import numpy_call
from trainer.engine.graph.errors import DTypeError, describe, refusal
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor

Tensors = Sequence[Tensor]


class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


def floats_of(name: str, x: Any) -> Tensor:
    """Returns x as a tensor of a floating-point or complex dtype that LAPACK supports."""
    tensor = as_tensor(x, operation=name)
    if not tensor.dtype.is_inexact or tensor.dtype.is_half:
        expected = "float32, float64, complex64 or complex128"
        raise refusal(
            name, f"does not take {tensor.dtype}", found=describe([tensor]), expected=expected, kind=DTypeError
        )
    return tensor


def matrices_of(name: str, x: Any, *, square: bool = False, of_floats: bool = True) -> Tensor:
    """Returns x as a tensor of matrices, [..., M, N]."""
    tensor = floats_of(name, x) if of_floats else as_tensor(x, operation=name)
    if tensor.ndim < 2 or (square and tensor.shape[-1] != tensor.shape[-2]):
        expected = f"[..., {'N, N' if square else 'M, N'}]"
        raise refusal(name, f"takes {'square ' if square else ''}matrices", found=describe([tensor]), expected=expected)
    return tensor


def adjoint_of(x: Tensor) -> Tensor:
    """The conjugate transpose."""
    return conj(x).mT


def diagonal_of(x: Tensor) -> Tensor:
    """Returns diagonal matrices with the elements of vectors."""
    return expand_dims(x, axis=-1) * eye(x.shape[-1], dtype=x.dtype)


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """Diagonal `offset` of each matrix (above the main one if positive), along a last axis.

    [..., M, N] of any dtype gives [..., K].

    Raises:
        TrainerError: x has fewer than two axes.
    """
    tensor = matrices_of("diagonal", x, of_floats=False)
    rows, columns = tensor.shape[-2:]
    start = offset if offset >= 0 else -offset * columns
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    flat = reshape(tensor, (*tensor.shape[:-2], rows * columns))
    return flat[..., slice(start, start + (count - 1) * (columns + 1) + 1 if count else start, columns + 1)]


def inv(x: Any, /) -> Tensor:
    """The inverses of square matrices [..., N, N] of a floating-point or complex dtype, in the same shape and dtype.

    Raises:
        TrainerError: the matrix is singular (raised when the value is computed).
    """
    tensor = matrices_of("inv", x, square=True)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        adjoint = adjoint_of(outputs[0])
        return [-matmul(adjoint, matmul(cotangents[0], adjoint))]

    return numpy_call("linalg.inv", [tensor], [(tensor.shape, tensor.dtype)], gradient)[0]


def solve(x1: Any, x2: Any, /) -> Tensor:
    """The solution y of x1 y = x2, for x1 [..., N, N] and x2 [..., N, K] or [N]. Both are promoted to one dtype.

    Raises:
        TrainerError: shapes don't match; or the matrix is singular (raised when the value is computed).
    """
    a, b = matrices_of("solve", x1, square=True), floats_of("solve", x2)
    is_vector = b.ndim == 1
    b = expand_dims(b, axis=-1) if is_vector else b
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise refusal("solve", "shapes don't fit", found=describe([a, b]), expected="[..., N, N] and [..., N, K]")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    dtype = promoted("solve", [a.dtype, b.dtype])
    a = broadcast_to(a.astype(dtype), (*batch, *a.shape[-2:]))
    b = broadcast_to(b.astype(dtype), (*batch, *b.shape[-2:]))
    result = solved(a, b)
    return squeeze(result, axis=-1) if is_vector else result


def solved(a: Tensor, b: Tensor) -> Tensor:
    """`solve` for matrices of the same dtype and batch shape."""

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        back = solved(adjoint_of(inputs[0]), cotangents[0])
        return [-matmul(back, adjoint_of(outputs[0])), back]

    return numpy_call("linalg.solve", [a, b], [(b.shape, b.dtype)], gradient)[0]


def det(x: Any, /) -> Tensor:
    """The determinants of square matrices; their derivatives need inverses.

    [..., N, N] of a floating-point or complex dtype gives [...] of that dtype.

    Raises:
        TrainerError: x does not hold square matrices, or its dtype is neither floating-point nor complex.
    """
    tensor = matrices_of("det", x, square=True)

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor]:
        return [_over_matrices(cotangents[0] * conj(outputs[0])) * adjoint_of(inv(inputs[0]))]

    return numpy_call("linalg.det", [tensor], [(tensor.shape[:-2], tensor.dtype)], gradient)[0]


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of each determinant (its phase if complex) and the logarithm of its absolute value.

    [..., N, N] of a floating-point or complex dtype gives two [...], the logarithm real.

    Raises:
        TrainerError: x does not hold square matrices, or its dtype is neither floating-point nor complex.
    """
    tensor = matrices_of("slogdet", x, square=True)
    dtype = tensor.dtype

    def gradient(inputs: Tensors, outputs: Tensors, cotangents: Sequence[Any]) -> list[Tensor | None]:
        sign, change = cotangents
        factor = None if change is None else change.astype(dtype)
        if sign is not None and dtype.is_complex:
            turn = -e.imag(conj(sign) * outputs[0]) * 1j
            factor = turn if factor is None else factor + turn
        return [None if factor is None else _over_matrices(factor) * adjoint_of(inv(inputs[0]))]

    batch = tensor.shape[:-2]
    results = [(batch, tensor.dtype), (batch, tensor.dtype.part)]
    return SlogdetResult(*numpy_call("linalg.slogdet", [tensor], results, gradient))


def _over_matrices(x: Tensor) -> Tensor:
    """Reshapes one number for each matrix to broadcast over that matrix."""
    return reshape(x, (*x.shape, 1, 1))

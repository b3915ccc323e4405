"""Linear algebra of the standard: products of matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trainer.engine.autocast import precision_of, rounded
from trainer.engine.functions.axes import one_axis
from trainer.engine.functions.elementwise import conj, multiply
from trainer.engine.functions.movement import moveaxis, permute_dims, reshape
from trainer.engine.functions.reductions import sum as sum_of
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor, broadcast_shape, cast, wrapped


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """[..., M, K] times [..., K, N]; leading axes broadcast, and a vector counts as one row or column.

    The result has the promoted dtype; 16-bit floats accumulate in float32, integers wrap.

    Raises:
        TrainerError: shapes don't fit, or dtypes can't be promoted.
    """
    a, b = as_tensor(x1, operation="matmul"), as_tensor(x2, operation="matmul")
    first, second = a.shape, b.shape
    if not first or not second or first[-1] != second[-2 if len(second) > 1 else 0]:
        raise refusal("matmul", "shapes don't fit", found=describe([a, b]), expected="[..., M, K] and [..., K, N]")
    precision = precision_of(a.dtype, b.dtype)
    if precision is None:
        dtype = promoted("matmul", [a.dtype, b.dtype])
        left, right = cast(a.node, dtype), cast(b.node, dtype)
    else:
        left, right = a.node, b.node
    left = p.reshape(left, (1, *first)) if len(first) == 1 else left
    right = p.reshape(right, (*second, 1)) if len(second) == 1 else right
    if left.ndim > 2 and right.ndim == 2:  # one tall product instead of many small ones
        rows = p.reshape(left, (math.prod(left.shape[:-1]), left.shape[-1]))
        result = p.reshape(p.matmul(rows, right, precision), (*left.shape[:-1], right.shape[-1]))
    else:
        batch = broadcast_shape("matmul", [left.shape[:-2], right.shape[:-2]])
        left, right = p.broadcast(left, (*batch, *left.shape[-2:])), p.broadcast(right, (*batch, *right.shape[-2:]))
        result = p.matmul(left, right, precision)
    result = rounded(result, precision)
    shape = result.shape
    if len(first) == 1:
        shape = (*shape[:-2], shape[-1])
    if len(second) == 1:
        shape = shape[:-1]
    return wrapped(p.reshape(result, shape), a, b)


def matrix_transpose(x: Any, /) -> Tensor:
    """Swaps the last two axes. x may have any dtype.

    Raises:
        TrainerError: x has fewer than two axes.
    """
    return as_tensor(x).mT


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The sum of products along `axis` of both, in the promoted dtype; the other axes broadcast.

    Complex x1 is conjugated.

    Raises:
        TrainerError: the axis has different extents, or other axes don't broadcast.
    """
    a, b = as_tensor(x1, operation="vecdot"), as_tensor(x2, operation="vecdot")
    if a.shape[one_axis("vecdot", axis, a.ndim)] != b.shape[one_axis("vecdot", axis, b.ndim)]:
        raise refusal("vecdot", "shapes don't fit", found=f"{describe([a, b])}, axis {axis}", expected="equal extents")
    if axis >= 0 and a.ndim != b.ndim:  # broadcasting counts axes from the end
        a, b, axis = moveaxis(a, axis, -1), moveaxis(b, axis, -1), -1
    products = multiply(conj(a), b)
    return sum_of(products, axis=axis, dtype=None if products.dtype.is_inexact else products.dtype)


def tensordot(x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Products summed over pairs of axes: the last `axes` of x1 with the first of x2, or the pairs that are given.

    The result has the promoted dtype; the other axes of x1, then those of x2, remain.

    Raises:
        TrainerError: the extents along paired axes differ, the axis is out of range, or dtypes can't be promoted.
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if isinstance(axes, int):
        left, right = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        left, right = tuple(axes[0]), tuple(axes[1])
    left = tuple(one_axis("tensordot", axis, a.ndim) for axis in left)
    right = tuple(one_axis("tensordot", axis, b.ndim) for axis in right)
    if [a.shape[axis] for axis in left] != [b.shape[axis] for axis in right]:
        raise refusal("tensordot", "shapes don't fit", found=f"{describe([a, b])}, axes {axes}")
    kept_left = tuple(axis for axis in range(a.ndim) if axis not in left)
    kept_right = tuple(axis for axis in range(b.ndim) if axis not in right)
    shared = math.prod(tuple(a.shape[axis] for axis in left))
    shape_left = tuple(a.shape[axis] for axis in kept_left)
    shape_right = tuple(b.shape[axis] for axis in kept_right)
    rows = reshape(permute_dims(a, kept_left + left), (math.prod(shape_left), shared))
    columns = reshape(permute_dims(b, right + kept_right), (shared, math.prod(shape_right)))
    return reshape(matmul(rows, columns), shape_left + shape_right)

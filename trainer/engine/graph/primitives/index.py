"""Reads and additions at indices that are data. Reads clamp an index that is out of range; additions drop it.

The gradient of a read drops it, too; the gradient of an addition assumes indices in range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape, make_node
from trainer.engine.graph.primitives.table import (
    FLOAT,
    check_axis,
    check_index_dtype,
    composed,
    first_dtype,
    named,
    register,
)


def _dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    return inputs[0].dtype


def _summed_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    if inputs[0].dtype.kind == "bool":
        raise refusal("scatter", "adds, so it does not take bool", found=describe(inputs), expected="a numeric dtype")
    return inputs[0].dtype


def _readable(name: str, x: Node, axis: int, indices: Node) -> None:
    check_index_dtype(name, indices)
    check_axis(name, axis, x.ndim)
    if x.shape[axis] == 0 and indices.size:
        raise refusal(name, "nothing to read along the axis", found=f"{describe([x, indices])}, axis {axis}")


def _accumulated(result: np.ndarray, places: tuple[Any, ...], updates: np.ndarray) -> np.ndarray:
    """`updates` added at `places` one by one, in row-major order."""
    np.add.at(result, places, updates)
    return result


def _wide_zeros(shape: tuple[int, ...], like: np.ndarray) -> np.ndarray:
    return np.zeros(shape, np.float64 if like.dtype.kind == "f" else like.dtype)


# --- gather and scatter_add: whole slices -----------------------------------------------------------------------------


def _gather_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x, indices), (axis,) = inputs, attributes
    _readable("gather", x, axis, indices)
    return x.shape[:axis] + indices.shape + x.shape[axis + 1 :]


def _scatter_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (updates, indices), (axis, size) = inputs, attributes
    check_index_dtype("scatter_add", indices)
    end = axis + indices.ndim
    if not 0 <= axis <= updates.ndim or updates.shape[axis:end] != indices.shape or size < 0:
        raise refusal(
            "scatter_add",
            "shapes don't fit",
            found=f"{describe(inputs)}, axis {axis}, size {size}",
            expected=f"updates that have {list(indices.shape)} at axis {axis}",
        )
    return (*updates.shape[:axis], size, *updates.shape[end:])


def _scatter_reference(attributes: tuple[Any, ...], updates: np.ndarray, indices: np.ndarray) -> np.ndarray:
    axis, size = attributes
    before, after = updates.shape[:axis], updates.shape[axis + indices.ndim :]
    rows = updates.reshape(*before, indices.size, *after)
    inside = ((indices >= 0) & (indices < size)).ravel()
    places = (*(slice(None),) * len(before), indices.ravel()[inside])
    kept = np.compress(inside, rows, axis=len(before))
    return _accumulated(_wide_zeros((*before, size, *after), updates), places, kept)


_GATHER = register(
    "gather", "index", _gather_shape, _dtype,
    lambda attributes, x, indices: np.take(x, indices, attributes[0], mode="clip"), ("axis",),
)  # fmt: skip
_SCATTER_ADD = register("scatter_add", "index", _scatter_shape, _summed_dtype, _scatter_reference, ("axis", "size"))


def gather(x: Node, indices: Node, axis: int) -> Node:
    """Slices of `x` at `indices` along `axis`: x.shape[:axis] + indices.shape + x.shape[axis + 1:]."""
    return make_node(_GATHER, (x, indices), (axis,))


def scatter_add(updates: Node, indices: Node, axis: int, size: int) -> Node:
    """The transpose of `gather`: zeros of `size` along `axis`, slices added in row-major order of `indices`."""
    return composed(_SCATTER_ADD, (updates, indices), (axis, size))


# --- take_along and scatter_add_along: an index for each element ------------------------------------------------------


def _take_along_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x, indices), (axis,) = inputs, attributes
    _readable("take_along", x, axis, indices)
    if (
        indices.ndim != x.ndim
        or indices.shape[:axis] + indices.shape[axis + 1 :] != x.shape[:axis] + x.shape[axis + 1 :]
    ):
        raise refusal(
            "take_along",
            "shapes don't fit",
            found=f"{describe(inputs)}, axis {axis}",
            expected=f"shapes that differ along axis {axis} only",
        )
    return indices.shape


def _scatter_along_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (updates, indices), (axis, size) = inputs, attributes
    check_index_dtype("scatter_add_along", indices)
    check_axis("scatter_add_along", axis, updates.ndim)
    if updates.shape != indices.shape or size < 0:
        raise refusal(
            "scatter_add_along",
            "shapes differ",
            found=f"{describe(inputs)}, size {size}",
            expected="an index for each update",
        )
    return (*updates.shape[:axis], size, *updates.shape[axis + 1 :])


def _take_along_reference(attributes: tuple[Any, ...], x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    (axis,) = attributes
    return np.take_along_axis(x, np.clip(indices, 0, max(0, x.shape[axis] - 1)), axis)


def _scatter_along_reference(attributes: tuple[Any, ...], updates: np.ndarray, indices: np.ndarray) -> np.ndarray:
    axis, size = attributes
    shape = (*updates.shape[:axis], size, *updates.shape[axis + 1 :])
    inside = (indices >= 0) & (indices < size)
    grid: list[np.ndarray] = list(np.indices(updates.shape))
    grid[axis] = indices
    return _accumulated(_wide_zeros(shape, updates), tuple(place[inside] for place in grid), updates[inside])


_TAKE_ALONG = register("take_along", "index", _take_along_shape, _dtype, _take_along_reference, ("axis",))
_SCATTER_ADD_ALONG = register(
    "scatter_add_along", "index", _scatter_along_shape, _summed_dtype, _scatter_along_reference, ("axis", "size")
)


def take_along(x: Node, indices: Node, axis: int) -> Node:
    """`numpy.take_along_axis`: the element of `x` at `indices` along `axis`; the other axes of both are equal."""
    return make_node(_TAKE_ALONG, (x, indices), (axis,))


def scatter_add_along(updates: Node, indices: Node, axis: int, size: int) -> Node:
    """The transpose of `take_along`: zeros of `size` along `axis`, to which updates are added in row-major order."""
    return composed(_SCATTER_ADD_ALONG, (updates, indices), (axis, size))


def _scattering(name: str, accumulate: np.ufunc, neutral: Callable[[np.dtype], float | int]) -> Callable[..., Node]:
    """A primitive like `scatter_add_along` that combines by `accumulate`, starting from its neutral element."""

    def reference(attributes: tuple[Any, ...], updates: np.ndarray, indices: np.ndarray) -> np.ndarray:
        axis, size = attributes
        wide = np.dtype(np.float64) if updates.dtype.kind == "f" else updates.dtype
        result = np.full((*updates.shape[:axis], size, *updates.shape[axis + 1 :]), neutral(wide), wide)
        inside = (indices >= 0) & (indices < size)
        grid = np.indices(updates.shape)
        grid[axis] = indices
        accumulate.at(result, tuple(grid[:, inside]), updates[inside])
        return result

    primitive = register(name, "index", _scatter_along_shape, _summed_dtype, reference, ("axis", "size"))

    def build(updates: Node, indices: Node, axis: int, size: int) -> Node:
        return make_node(primitive, (updates, indices), (axis, size))

    return named(name, build)


def _lowest(dtype: np.dtype) -> float | int:
    return -np.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


def _highest(dtype: np.dtype) -> float | int:
    return np.inf if dtype.kind == "f" else int(np.iinfo(dtype).max)


scatter_prod_along = _scattering("scatter_prod_along", np.multiply, lambda dtype: 1)
scatter_max_along = _scattering("scatter_max_along", np.maximum, _lowest)
scatter_min_along = _scattering("scatter_min_along", np.minimum, _highest)


# --- gather_sum -------------------------------------------------------------------------------------------------------


def _gather_sum_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    table, indices, weights = inputs
    fits = table.ndim == indices.ndim == 3 and table.shape[0] == indices.shape[0] and indices.shape == weights.shape
    if not fits or 0 in (table.shape[1], indices.shape[2]):
        expected = "table [N, M, C], indices and weights [N, P, T], M and T of at least 1"
        raise refusal("gather_sum", "shapes don't fit", found=describe(inputs), expected=expected)
    check_index_dtype("gather_sum", indices)
    return (*indices.shape[:2], table.shape[2])


def _gather_sum_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    return first_dtype("gather_sum", FLOAT)((inputs[0], inputs[2]), attributes)


def _gather_sum_reference(
    attributes: tuple[Any, ...], table: np.ndarray, indices: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    held = np.clip(indices, 0, table.shape[1] - 1)
    rows = table.astype(np.float64)[np.arange(len(table))[:, None, None], held]
    return np.einsum("npt,nptc->npc", weights.astype(np.float64), rows)


_GATHER_SUM = register("gather_sum", "index", _gather_sum_shape, _gather_sum_dtype, _gather_sum_reference)


def gather_sum(table: Node, indices: Node, weights: Node) -> Node:
    """[N, P, C]: sums of rows of `table` [N, M, C] at `indices` [N, P, T], each times its weight [N, P, T].

    Interpolation between the pixels of an image has this form: taps are the pixels around a place.
    """
    return make_node(_GATHER_SUM, (table, indices, weights), ())

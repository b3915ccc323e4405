"""Order: sorting, and suppression of overlapping candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape, make_node
from trainer.engine.graph.primitives.table import BOOLEAN, REAL, along_axes, check_axis, register


def _argsort_reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    """Descending order is the ascending order of reversed ranks: equal elements keep their order in both."""
    axis, descending = attributes
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    ranks = np.unique(x, return_inverse=True)[1].reshape(x.shape)  # all NaN are one element, the largest
    return np.argsort(-ranks, axis=axis, kind="stable")


_ARGSORT = register(
    "argsort", "index", along_axes("argsort"), REAL, _argsort_reference, ("axis", "descending"), result=dtypes.int64
)


def argsort(x: Node, axis: int, descending: bool) -> Node:
    """The indices that sort `x` along `axis`, int64. Equal elements keep their order; NaN is greater than any number.

    Indices have no gradient.
    """
    return make_node(_ARGSORT, (x,), (axis, descending))


def _bits_in_order(x: np.ndarray) -> np.ndarray:
    """Floats as integers of the same order, -0 before 0 and NaN last; its own inverse, except that NaN become one."""
    bits = x.view(f"i{x.dtype.itemsize}")
    ordered = bits ^ (bits >> (8 * x.dtype.itemsize - 1) & np.iinfo(bits.dtype).max)
    return np.where(np.isnan(x), np.iinfo(bits.dtype).max, ordered)


def _sort_reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    axis, descending = attributes
    if x.dtype.kind == "f":
        ranks = np.sort(_bits_in_order(np.ascontiguousarray(x).reshape(x.shape)), axis=axis)
        found = (ranks ^ (ranks >> (8 * x.dtype.itemsize - 1) & np.iinfo(ranks.dtype).max)).view(x.dtype)
    else:
        found = np.sort(x, axis=axis)
    return np.flip(found, axis) if descending else found


_SORT = register("sort", "index", along_axes("sort"), REAL, _sort_reference, ("axis", "descending"))


def sort(x: Node, axis: int, descending: bool) -> Node:
    """`x` sorted along `axis`: NaN is greater than any number and -0 less than 0; NaN payloads are lost."""
    return make_node(_SORT, (x,), (axis, descending))


def _top_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x,), (axis, count, _) = inputs, attributes
    check_axis("top_k", axis, x.ndim)
    if not 0 <= count <= x.shape[axis]:
        raise refusal("top_k", "wrong number of elements", found=f"{count} of {describe(inputs)}, axis {axis}")
    return (*x.shape[:axis], count, *x.shape[axis + 1 :])


def _top_reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    axis, count, descending = attributes
    return np.take(_argsort_reference((axis, descending), x), np.arange(count), axis)


_TOP = register(
    "top_k", "index", _top_shape, REAL, _top_reference, ("axis", "count", "descending"), result=dtypes.int64
)


def top_k(x: Node, axis: int, count: int, descending: bool) -> Node:
    """The first `count` of `argsort(x, axis, descending)`, found without sorting the others if `count` is small."""
    return make_node(_TOP, (x,), (axis, count, descending))


def _suppress_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (overlaps,) = inputs
    if overlaps.ndim < 2 or overlaps.shape[-1] != overlaps.shape[-2]:
        raise refusal("suppress", "needs square matrices", found=describe(inputs), expected="shape [..., N, N]")
    return overlaps.shape[:-1]


def _suppress_reference(attributes: tuple[Any, ...], overlaps: np.ndarray) -> np.ndarray:
    kept = np.ones(overlaps.shape[:-1], bool)
    for row in range(overlaps.shape[-1]):
        hidden = overlaps[..., row, :] & kept[..., row, None]
        kept[..., row + 1 :] &= ~hidden[..., row + 1 :]
    return kept


_SUPPRESS = register("suppress", "index", _suppress_shape, BOOLEAN, _suppress_reference)


def suppress(overlaps: Node) -> Node:
    """Greedy suppression: whether each of N candidates is kept, bool [..., N]; an earlier kept candidate suppresses
    those that it overlaps.

    `overlaps` is bool [..., N, N]: whether the row's candidate suppresses the column's. Only the part above the
    diagonal is read.
    """
    return make_node(_SUPPRESS, (overlaps,), ())

"""Order: where elements come when sorted, and which of overlapping candidates stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape, make_node
from trainer.engine.graph.primitives.table import BOOLEAN, REAL, along_axes, register


def _argsort_reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    """Descending is the ascending order of what is ranked backwards: equal elements keep their places either way."""
    axis, descending = attributes
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    ranks = np.unique(x, return_inverse=True)[1].reshape(x.shape)  # NaN is one element, the greatest
    return np.argsort(-ranks, axis=axis, kind="stable")


_ARGSORT = register(
    "argsort", "index", along_axes("argsort"), REAL, _argsort_reference, ("axis", "descending"), result=dtypes.int64
)


def argsort(x: Node, axis: int, descending: bool) -> Node:
    """The indices that sort `x` along `axis`, int64. Equal elements keep their order; NaN is greater than any number.

    To sort is to `take_along` them, whose gradient is a `scatter_add_along`: a choice of places has none.
    """
    return make_node(_ARGSORT, (x,), (axis, descending))


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
    """Which of N candidates stay, bool [..., N]: one stays unless an earlier one that stays overlaps it.

    `overlaps` is bool [..., N, N]: whether the candidate of the row, if it stays, hides that of the column. Only what
    is right of the diagonal is read.
    """
    return make_node(_SUPPRESS, (overlaps,), ())

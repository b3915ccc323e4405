"""Indices that are data: negative ones count from the end of their axis, and those out of range become the nearest one.

Arithmetic on the indices does this, so that gradients flow to the elements that were read. Indices that are in range by
construction are not adjusted: most of a detector's indices come from sorting.
"""

from __future__ import annotations

from typing import Any

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node
from trainer.engine.graph.simplify import uniform_value
from trainer.engine.tensor import Tensor, as_tensor

_REARRANGING = frozenset({"reshape", "permute", "expand", "slice", "flip", "stop_gradient", "barrier"})


def as_indices(operation: str, places: Tensor) -> Node:
    """Returns `places` in a dtype that primitives accept as indices.

    Raises:
        TrainerError: they are not integers.
    """
    if not places.dtype.is_integer:
        raise refusal(operation, "indices are integers", found=describe([places]), expected="an integer dtype")
    if places.dtype in (dtypes.int32, dtypes.int64):
        return places.node
    return p.cast(places.node, dtypes.int64 if places.dtype.itemsize >= 4 else dtypes.int32)


def as_places(operation: str, indices: Any, extent: int) -> tuple[Tensor, Node]:
    """Returns `indices` (a tensor, an array or lists) as a tensor, and as a node of places from 0 to `extent` - 1."""
    places = as_tensor(indices, operation=operation)
    node = as_indices(operation, places)
    limit = _limit(node) if isinstance(indices, Tensor) else _limit_of_values(places)
    if limit is not None and limit <= extent:
        return places, node
    if extent > 2**31 - 1:
        node = p.cast(node, dtypes.int64)
    if limit is None:
        from_end = p.add(node, p.full_like(node, extent))
        node = p.where(p.less(node, p.full_like(node, 0)), from_end, node)
        node = p.maximum(node, p.full_like(node, 0))
    return places, p.minimum(node, p.full_like(node, max(0, extent - 1)))


def _limit(node: Node) -> int | None:
    """Returns a number above all values of an integer node, if none is negative; None if that is unknown."""
    while node.dtype is not dtypes.uint8 and (node.name in _REARRANGING or _converts_integers(node)):
        node = node.inputs[0]
    if node.dtype is dtypes.uint8:
        return 256
    if node.name in ("argsort", "argmax", "argmin"):
        return node.inputs[0].shape[node.attributes[0]]
    if node.name == "iota":
        return node.attributes[0][node.attributes[1]]
    if node.name in ("floor_divide", "remainder"):
        divisor = int(uniform_value(node.inputs[1]) or 0)
        if divisor > 0 and node.name == "remainder":
            return divisor
        limit = _limit(node.inputs[0])
        return -(-limit // divisor) if divisor > 0 and limit is not None else None
    return None


def _converts_integers(node: Node) -> bool:
    return node.name == "cast" and node.inputs[0].dtype.is_integer and node.dtype in (dtypes.int32, dtypes.int64)


def _limit_of_values(places: Tensor) -> int | None:
    """`_limit` for values that are in memory."""
    if places.node.value is None:
        return None  # a Python number: a constant, folded when the program is compiled
    values = places.node.value.view()
    return None if values.size and values.min() < 0 else int(values.max(initial=-1)) + 1

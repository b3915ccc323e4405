"""Derivatives of reductions, moments and scans."""

from __future__ import annotations

import math

from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Gradient, Node
from trainer.engine.graph.primitives.compose import scale, spread


def _sum(node: Node, dy: Node) -> tuple[Node]:
    return (spread(dy, node.attributes[0], node.inputs[0].shape),)


def _extremum(node: Node, dy: Node) -> tuple[Node]:
    """The cotangent is shared equally by all elements equal to the extremum (as in PyTorch)."""
    x, axes = node.inputs[0], node.attributes[0]
    is_taken = p.cast(p.equal(x, spread(node, axes, x.shape)), x.dtype)
    share = p.divide(dy, p.reduce_sum(is_taken, axes))
    return (p.multiply(is_taken, spread(share, axes, x.shape)),)


def _product(node: Node, dy: Node) -> tuple[Node]:
    """dy · the product of all other elements; also correct where elements are zero."""
    x, axes = node.inputs[0], node.attributes[0]
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    order = kept + axes
    moved = p.permute(x, order)
    rows = p.reshape(moved, (node.size, x.size // max(1, node.size)) if node.size else (0, 1))
    before = _running_product(shifted(rows, 1))
    after = p.flip(_running_product(shifted(p.flip(rows, (1,)), 1)), (1,))
    others = p.reshape(p.multiply(before, after), moved.shape)
    back = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return (p.multiply(p.permute(others, back), spread(dy, axes, x.shape)),)


def shifted(rows: Node, count: int, value: float = 1) -> Node:
    """Rows shifted right by `count` and padded with ones (or `value`)."""
    height, width = rows.shape
    kept = p.slice_(rows, (0, 0), (height, max(0, width - count)), (1, 1))
    return p.pad(kept, (0, min(count, width)), (0, 0), (0, 0), value)


def _running_product(rows: Node) -> Node:
    """Inclusive products along rows, by doubling (Hillis & Steele 1986): log2(width) steps."""
    step = 1
    while step < rows.shape[1]:
        rows = p.multiply(rows, shifted(rows, step))
        step *= 2
    return rows


def _mean(node: Node, dy: Node) -> tuple[Node]:
    count = node.inputs[0].size // max(1, node.size)
    return _sum(node, p.divide(dy, p.full_like(dy, float(count))))


def _deviations(node: Node, dy: Node) -> tuple[Node]:
    """2·(x - mean)·dy: the derivative through the mean vanishes, as the distances from it add up to zero."""
    x, axes = node.inputs[0], node.attributes[0]
    distance = p.subtract(x, spread(p.reduce_mean(x, axes), axes, x.shape))
    return (p.multiply(distance, spread(scale(dy, 2.0), axes, x.shape)),)


def _cumulative_sum(node: Node, dy: Node) -> tuple[Node]:
    axis = node.attributes[0]
    return (p.flip(p.cumulative_sum(p.flip(dy, (axis,)), axis), (axis,)),)


def _cumulative_prod(node: Node, dy: Node) -> tuple[Node]:
    """dx[i] = x[0]·…·x[i - 1] · s[i], where s[i] = dy[i] + x[i + 1]·s[i + 1]; also correct where elements are 0.

    The recurrence runs from the end by doubling (Hillis & Steele 1986), as pairs (factor, sum): log2(length) steps.
    """
    x, axis = node.inputs[0], node.attributes[0]
    order = (*(each for each in range(x.ndim) if each != axis), axis)
    back = tuple(sorted(range(x.ndim), key=order.__getitem__))
    moved = p.permute(x, order)
    shape, flat = moved.shape, (math.prod(moved.shape[:-1]), moved.shape[-1])
    rows = p.reshape(moved, flat)
    before = p.cumulative_prod(shifted(rows, 1), 1)
    factors, sums = shifted(p.flip(rows, (1,)), 1), p.flip(p.reshape(p.permute(dy, order), flat), (1,))
    step = 1
    while step < flat[1]:
        sums = p.add(sums, p.multiply(factors, shifted(sums, step, 0)))
        factors = p.multiply(factors, shifted(factors, step))
        step *= 2
    return (p.permute(p.reshape(p.multiply(before, p.flip(sums, (1,))), shape), back),)


GRADIENTS: dict[str, Gradient | None] = {
    "reduce_sum": _sum,
    "reduce_prod": _product,
    "reduce_max": _extremum,
    "reduce_min": _extremum,
    "reduce_mean": _mean,
    "reduce_deviations": _deviations,
    "cumulative_sum": _cumulative_sum,
    "cumulative_prod": _cumulative_prod,
    "argmax": None,
    "argmin": None,
}

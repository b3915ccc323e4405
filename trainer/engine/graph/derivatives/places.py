"""Derivatives of reads and additions at places: at indices that are data, in windows, and in runs of neighbors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from trainer.engine.graph import primitives as p
from trainer.engine.graph.derivatives.reduction import shifted
from trainer.engine.graph.node import Gradient, Node
from trainer.engine.graph.primitives.resampling import Band, Run


def _added(add: Callable[[Node, Node, int, int], Node]) -> Gradient:
    """The rule of a read: the cotangent is added where the values were read."""

    def rule(node: Node, dy: Node) -> tuple[Node, None]:
        (x, indices), (axis,) = node.inputs, node.attributes
        return add(dy, indices, axis, x.shape[axis]), None

    return rule


def _read(read: Callable[[Node, Node, int], Node]) -> Gradient:
    """The rule of an addition: the cotangent is read back for each update; zeros if it is empty."""

    def rule(node: Node, dy: Node) -> tuple[Node, None]:
        (updates, indices), (axis, size) = node.inputs, node.attributes
        return read(dy, indices, axis) if size else p.full_like(updates, 0.0), None

    return rule


def _scattered_extremum(node: Node, dy: Node) -> tuple[Node, None]:
    """Updates that equal the extremum of their place share its cotangent evenly."""
    (updates, indices), (axis, size) = node.inputs, node.attributes
    if not size:
        return p.full_like(updates, 0.0), None
    is_taken = p.cast(p.equal(updates, p.take_along(node, indices, axis)), updates.dtype)
    count = p.scatter_add_along(is_taken, indices, axis, size)
    share = p.divide(dy, p.maximum(count, p.full_like(count, 1.0)))
    return p.multiply(is_taken, p.take_along(share, indices, axis)), None


def _scattered_product(node: Node, dy: Node) -> tuple[Node, None]:
    """dy · the product of the other updates of the place: those before and those after each, sorted by place.

    It needs no division, so derivatives of every order are also correct where updates are zero.
    """
    (updates, indices), axis = node.inputs, node.attributes[0]
    if not node.size:
        return p.full_like(updates, 0.0), None
    order = (*(each for each in range(updates.ndim) if each != axis), axis)
    back = tuple(sorted(range(updates.ndim), key=order.__getitem__))
    moved = p.permute(updates, order)
    flat = (math.prod(moved.shape[:-1]), moved.shape[-1])
    rows, places = p.reshape(moved, flat), p.reshape(p.permute(indices, order), flat)
    by_place = p.argsort(places, 1, False)
    rows, places = p.take_along(rows, by_place, 1), p.take_along(places, by_place, 1)
    after = p.flip(_products_before(p.flip(rows, (1,)), p.flip(places, (1,))), (1,))
    others = p.multiply(_products_before(rows, places), after)
    others = p.reshape(p.scatter_add_along(others, by_place, 1, flat[1]), moved.shape)
    return p.multiply(p.permute(others, back), p.take_along(dy, indices, axis)), None


def _products_before(rows: Node, places: Node) -> Node:
    """The product, for each element, of earlier elements of its row with the same place; equal places are adjacent.

    Computed by doubling (Hillis & Steele 1986): log2(width) steps.
    """

    def earlier(values: Node, step: int) -> Node:
        return p.where(p.equal(places, shifted(places, step, -1)), shifted(values, step), p.full_like(values, 1.0))

    products, step = earlier(rows, 1), 1
    while step < rows.shape[1]:
        products = p.multiply(products, earlier(products, step))
        step *= 2
    return products


def _sort(node: Node, dy: Node) -> tuple[Node]:
    (x,), (axis, descending) = node.inputs, node.attributes
    return (p.scatter_add_along(dy, p.argsort(x, axis, descending), axis, x.shape[axis]),)


def _gather_sum(node: Node, dy: Node) -> tuple[Node, None, Node]:
    table, indices, weights = node.inputs
    batch, places, taps = indices.shape
    each = (batch, places, taps, node.shape[2])
    flat = (batch, places * taps, node.shape[2])
    rows = p.expand(p.reshape(indices, (batch, places * taps, 1)), flat)
    spread_dy = p.expand(p.reshape(dy, (batch, places, 1, node.shape[2])), each)
    terms = p.multiply(spread_dy, p.expand(p.reshape(weights, (*indices.shape, 1)), each))
    read = p.reshape(p.take_along(table, rows, 1), each)
    added = p.scatter_add_along(p.reshape(terms, flat), rows, 1, table.shape[1])
    return added, None, p.reduce_sum(p.multiply(spread_dy, read), (3,))


def _window_max(node: Node, dy: Node) -> tuple[Node]:
    (x,) = node.inputs
    window, strides, padding, dilation = node.attributes
    places = p.window_argmax(x, window, strides, padding, dilation)
    return (p.window_max_gradient(dy, places, window, strides, padding, dilation, (x.shape[2], x.shape[3])),)


def _window_max_gradient(node: Node, cotangent: Node) -> tuple[Node, None]:
    dy, places = node.inputs
    batch, channels, height, width = node.shape
    flat = (batch, channels, dy.shape[2] * dy.shape[3])
    pixels = p.reshape(cotangent, (batch, channels, height * width))
    return p.reshape(p.take_along(pixels, p.reshape(places, flat), 2), dy.shape), None


@functools.lru_cache(maxsize=256)
def _transposed(band: Band) -> Band:
    """The transpose of a banded matrix: for each place of the input axis, its weights at the places of the output."""
    extent, runs = band
    given: list[dict[int, float]] = [{} for _ in range(extent)]
    for place, (start, weights) in enumerate(runs):
        for offset, weight in enumerate(weights):
            given[start + offset][place] = weight
    back: list[Run] = []
    for shares in given:
        first, last = min(shares, default=0), max(shares, default=-1)
        back.append((first, tuple(shares.get(place, 0.0) for place in range(first, last + 1))))
    return len(runs), tuple(back)


GRADIENTS: dict[str, Gradient | None] = {
    "gather": _added(p.scatter_add),
    "scatter_add": _read(p.gather),
    "take_along": _added(p.scatter_add_along),
    "scatter_add_along": _read(p.take_along),
    "scatter_max_along": _scattered_extremum,
    "scatter_min_along": _scattered_extremum,
    "scatter_prod_along": _scattered_product,
    "gather_sum": _gather_sum,
    "argsort": None,
    "sort": _sort,
    "top_k": None,
    "suppress": None,
    "window_argmax": None,
    "window_max": _window_max,
    "window_max_gradient": _window_max_gradient,
    "resample": lambda node, dy: (p.resample(dy, *(_transposed(band) for band in node.attributes)),),
}

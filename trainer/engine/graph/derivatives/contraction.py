"""Derivatives of contractions.

Convolution and its gradients are the three derivatives of one trilinear form, sum(dy · convolution(x, w)), so the
gradients of each are the other two.
"""

from __future__ import annotations

from typing import Any

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Gradient, Node, Shape
from trainer.engine.graph.primitives.compose import add_all, transpose_last

BLOCK_ROWS = 2048
"""Rows in a block of a weight gradient: one product along 12,800 rows takes twice as long as blocks of this size."""


def _like(cotangent: Node, source: Node) -> Node:
    return cotangent if cotangent.dtype is source.dtype else p.cast(cotangent, source.dtype)


def weight_gradient(a: Node, b: Node, precision: DType | None) -> Node:
    """aᵀ·b for [..., rows, M] and [..., rows, N]; for two matrices with many rows, a sum over blocks of rows."""
    rows = a.shape[-2]
    if a.ndim > 2 or rows < 2 * BLOCK_ROWS:
        return p.matmul(transpose_last(a), b, precision)
    bounds = [(first, min(first + BLOCK_ROWS, rows)) for first in range(0, rows, BLOCK_ROWS)]
    parts = [[p.slice_(x, (first, 0), (last, x.shape[1]), (1, 1)) for x in (a, b)] for first, last in bounds]
    return add_all([p.matmul(transpose_last(left), right, precision) for left, right in parts])


def _matmul(node: Node, dy: Node) -> tuple[Node, Node]:
    (a, b), (precision,) = node.inputs, node.attributes
    if a.name == "permute":  # computes the gradient before the transpose directly: both transposes cancel
        da = transpose_last(p.matmul(b, transpose_last(dy), precision))
    else:
        da = p.matmul(dy, transpose_last(b), precision)
    if b.name == "permute":
        db = transpose_last(weight_gradient(dy, a, precision))
    else:
        db = weight_gradient(a, dy, precision)
    return _like(da, a), _like(db, b)


def _dx(geometry: tuple[Any, ...], dy: Node, w: Node, spatial: Shape) -> Node:
    strides, padding, dilation, groups, precision = geometry
    return p.convolution_input_gradient(dy, w, strides, padding, dilation, groups, spatial, precision)


def _dw(geometry: tuple[Any, ...], x: Node, dy: Node, window: Shape) -> Node:
    strides, padding, dilation, groups, precision = geometry
    return p.convolution_weight_gradient(x, dy, strides, padding, dilation, groups, window, precision)


def _convolution(node: Node, dy: Node) -> tuple[Node, Node]:
    (x, w), geometry = node.inputs, node.attributes
    return _like(_dx(geometry, dy, w, x.shape[2:]), x), _like(_dw(geometry, x, dy, w.shape[2:]), w)


def _input_gradient(node: Node, dx: Node) -> tuple[Node, Node]:
    (dy, w), geometry = node.inputs, node.attributes[:-1]
    return _like(p.convolution(dx, w, *geometry), dy), _like(_dw(geometry, dx, dy, w.shape[2:]), w)


def _weight_gradient(node: Node, dw: Node) -> tuple[Node, Node]:
    (x, dy), geometry = node.inputs, node.attributes[:-1]
    return _like(_dx(geometry, dy, dw, x.shape[2:]), x), _like(p.convolution(x, dw, *geometry), dy)


GRADIENTS: dict[str, Gradient | None] = {
    "matmul": _matmul,
    "convolution": _convolution,
    "convolution_input_gradient": _input_gradient,
    "convolution_weight_gradient": _weight_gradient,
}

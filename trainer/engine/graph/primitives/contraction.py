"""Contractions: matrix product, and convolution with its two transposes.

`precision` is None, or a 16-bit float dtype: then the operands, float32 or of that dtype, are rounded to it, and their
products are accumulated in float32, the dtype of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes, half
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape, make_node
from trainer.engine.graph.primitives.table import FLOAT, NUMERIC, DTypeRule, composed, first_dtype, register

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]
_NONE: Padding = ((0, 0), (0, 0))
_GEOMETRY = ("strides", "padding", "dilation", "groups", "precision")


# --- matmul -----------------------------------------------------------------------------------------------------------


def _matmul_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    a, b = inputs[0].shape, inputs[1].shape
    if len(a) < 2 or len(a) != len(b) or a[:-2] != b[:-2] or a[-1] != b[-2]:
        raise refusal("matmul", "shapes don't fit", found=describe(inputs), expected="[..., M, K] and [..., K, N]")
    return (*a[:-1], b[-1])


def _result_dtype(name: str, kinds: tuple[str, ...], position: int) -> DTypeRule:
    """The rule that inputs and result have one dtype of `kinds`, unless attribute `position`, the precision, is set."""
    alike = first_dtype(name, kinds)

    def rule(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
        precision = attributes[position]
        if precision is None:
            return alike(inputs, attributes)
        if not precision.is_half or not {precision, dtypes.float32}.issuperset(source.dtype for source in inputs):
            expected = "float32 or a 16-bit float, rounded to it"
            found = f"{describe(inputs)}, precision {precision}"
            raise refusal(name, "unknown precision", found=found, expected=expected)
        return dtypes.float32

    return rule


def _widened(array: np.ndarray, precision: DType | None) -> np.ndarray:
    if precision is not None:
        array = half.rounded(array, precision)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _matmul_reference(attributes: tuple[Any, ...], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (precision,) = attributes
    return np.asarray(np.matmul(_widened(a, precision), _widened(b, precision)))


_MATMUL = register(
    "matmul", "contraction", _matmul_shape, _result_dtype("matmul", NUMERIC, 0), _matmul_reference, ("precision",)
)


def matmul(a: Node, b: Node, precision: DType | None = None) -> Node:
    """a [..., M, K] times b [..., K, N], with equal batch dimensions."""
    return composed(_MATMUL, (a, b), (precision,))


# --- geometry of a convolution ----------------------------------------------------------------------------------------


def window_extents(
    name: str, spatial: Shape, window: Shape, strides: Pair, padding: Padding, dilation: Pair, found: Sequence[Node]
) -> Shape:
    """Returns the number of windows along each spatial axis; rejects an invalid geometry."""
    fields = (spatial, window, strides, padding, dilation)
    if (
        any(len(field) != 2 for field in fields)
        or min((*strides, *dilation, *window)) < 1
        or min(map(min, padding)) < 0
    ):
        raise refusal(
            name,
            "wrong geometry",
            found=f"{describe(found)}, window {window}, strides {strides}, padding {padding}, dilation {dilation}",
            expected="two spatial axes; window, strides and dilation of at least 1, padding of at least 0",
        )
    extents = extents_of(*fields)
    if min(extents) < 1:
        given = f"input {list(spatial)}, window {list(window)}, padding {padding}, dilation {dilation}"
        raise refusal(name, "the window is larger than the padded input", found=given)
    return extents


def extents_of(spatial: Shape, window: Shape, strides: Pair, padding: Padding, dilation: Pair) -> Shape:
    """As `window_extents`, for a geometry that is known to be valid."""
    return tuple(
        (extent + low + high - spacing * (size - 1) - 1) // stride + 1
        for extent, size, stride, (low, high), spacing in zip(spatial, window, strides, padding, dilation, strict=True)
    )


def _check(name: str, holds: bool, inputs: Sequence[Node], expected: str) -> None:
    if not holds:
        raise refusal(name, "shapes don't fit", found=describe(inputs), expected=expected)


def _convolution_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x, w), (strides, padding, dilation, groups, _) = inputs, attributes
    expected = f"x [N, C, H, W] and weight [K, C/{groups}, R, S], K and C divisible by groups {groups}"
    _check("convolution", x.ndim == w.ndim == 4 and groups > 0, inputs, expected)
    _check("convolution", x.shape[1] == w.shape[1] * groups and w.shape[0] % groups == 0, inputs, expected)
    extents = window_extents("convolution", x.shape[2:], w.shape[2:], strides, padding, dilation, inputs)
    return (x.shape[0], w.shape[0], *extents)


def _input_gradient_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (dy, w), (strides, padding, dilation, groups, _, spatial) = inputs, attributes
    name = "convolution_input_gradient"
    expected = f"dy [N, K, P, Q] and weight [K, C/{groups}, R, S], K divisible by groups {groups}"
    _check(name, dy.ndim == w.ndim == 4 and groups > 0, inputs, expected)
    _check(name, dy.shape[1] == w.shape[0] and w.shape[0] % groups == 0, inputs, expected)
    extents = window_extents(name, spatial, w.shape[2:], strides, padding, dilation, inputs)
    _check(
        name, dy.shape[2:] == extents, inputs, f"dy of spatial extents {list(extents)} for an input of {list(spatial)}"
    )
    return (dy.shape[0], w.shape[1] * groups, *spatial)


def _weight_gradient_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x, dy), (strides, padding, dilation, groups, _, window) = inputs, attributes
    name = "convolution_weight_gradient"
    expected = f"x [N, C, H, W] and dy [N, K, P, Q], C and K divisible by groups {groups}"
    _check(name, x.ndim == dy.ndim == 4 and groups > 0 and x.shape[0] == dy.shape[0], inputs, expected)
    _check(name, x.shape[1] % groups == 0 and dy.shape[1] % groups == 0, inputs, expected)
    extents = window_extents(name, x.shape[2:], window, strides, padding, dilation, inputs)
    _check(name, dy.shape[2:] == extents, inputs, f"dy of spatial extents {list(extents)}")
    return (dy.shape[1], x.shape[1] // groups, *window)


# --- references: one matrix product for each place of the window, in float64 ------------------------------------------


def _padded(x: np.ndarray, padding: Padding) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 0), *padding))


def _places(window: Shape, strides: Pair, dilation: Pair, extents: Shape) -> list[tuple[int, int, tuple[slice, slice]]]:
    """(r, s, the slices of the padded input that weight [.., r, s] multiplies)."""
    return [
        (
            r,
            s,
            (
                slice(r * dilation[0], r * dilation[0] + (extents[0] - 1) * strides[0] + 1, strides[0]),
                slice(s * dilation[1], s * dilation[1] + (extents[1] - 1) * strides[1] + 1, strides[1]),
            ),
        )
        for r in range(window[0])
        for s in range(window[1])
    ]


def _grouped(x: np.ndarray, groups: int, axis: int) -> np.ndarray:
    """`axis` split into (groups, the rest)."""
    return x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])


def _convolution_reference(attributes: tuple[Any, ...], x: np.ndarray, w: np.ndarray) -> np.ndarray:
    strides, padding, dilation, groups, precision = attributes
    x, w = _padded(_widened(x, precision), padding), _grouped(_widened(w, precision), groups, 0)
    extents = extents_of(x.shape[2:], w.shape[3:], strides, _NONE, dilation)  # x is padded
    result = np.zeros((x.shape[0], groups, w.shape[1], *extents))
    for r, s, place in _places(w.shape[3:], strides, dilation, extents):
        pixels = _grouped(x[:, :, *place], groups, 1)
        result += np.einsum("ngcpq,gkc->ngkpq", pixels, w[..., r, s], optimize=True)
    return result.reshape(x.shape[0], groups * w.shape[1], *extents)


def _input_gradient_reference(attributes: tuple[Any, ...], dy: np.ndarray, w: np.ndarray) -> np.ndarray:
    strides, padding, dilation, groups, precision, spatial = attributes
    dy, w = _grouped(_widened(dy, precision), groups, 1), _grouped(_widened(w, precision), groups, 0)
    (top, bottom), (left, right) = padding
    dx = np.zeros((dy.shape[0], groups, w.shape[2], spatial[0] + top + bottom, spatial[1] + left + right))
    for r, s, place in _places(w.shape[3:], strides, dilation, dy.shape[3:]):
        dx[:, :, :, *place] += np.einsum("ngkpq,gkc->ngcpq", dy, w[..., r, s], optimize=True)
    inside = dx[:, :, :, top : top + spatial[0], left : left + spatial[1]]
    return inside.reshape(dy.shape[0], groups * w.shape[2], *spatial)


def _weight_gradient_reference(attributes: tuple[Any, ...], x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    strides, padding, dilation, groups, precision, window = attributes
    x, dy = _padded(_widened(x, precision), padding), _grouped(_widened(dy, precision), groups, 1)
    dw = np.zeros((groups, dy.shape[2], x.shape[1] // groups, *window))
    for r, s, place in _places(window, strides, dilation, dy.shape[3:]):
        pixels = _grouped(x[:, :, *place], groups, 1)
        dw[..., r, s] = np.einsum("ngcpq,ngkpq->gkc", pixels, dy, optimize=True)
    return dw.reshape(groups * dy.shape[2], x.shape[1] // groups, *window)


# --- primitives -------------------------------------------------------------------------------------------------------


_CONVOLUTION = register(
    "convolution", "contraction", _convolution_shape, _result_dtype("convolution", FLOAT, 4), _convolution_reference,
    _GEOMETRY,
)  # fmt: skip
_INPUT_GRADIENT = register(
    "convolution_input_gradient", "contraction", _input_gradient_shape,
    _result_dtype("convolution_input_gradient", FLOAT, 4), _input_gradient_reference, (*_GEOMETRY, "spatial"),
)  # fmt: skip
_WEIGHT_GRADIENT = register(
    "convolution_weight_gradient", "contraction", _weight_gradient_shape,
    _result_dtype("convolution_weight_gradient", FLOAT, 4), _weight_gradient_reference, (*_GEOMETRY, "window"),
)  # fmt: skip


def convolution(
    x: Node, w: Node, strides: Pair, padding: Padding, dilation: Pair, groups: int, precision: DType | None = None
) -> Node:
    """Cross-correlation of x [N, C, H, W] with w [K, C/groups, R, S]: y [N, K, P, Q]."""
    return make_node(_CONVOLUTION, (x, w), (strides, padding, dilation, groups, precision))


def convolution_input_gradient(
    dy: Node, w: Node, strides: Pair, padding: Padding, dilation: Pair, groups: int, spatial: Shape,
    precision: DType | None = None,
) -> Node:  # fmt: skip
    """The cotangent of `convolution`'s x of extents `spatial`; also the transposed convolution of dy."""
    return make_node(_INPUT_GRADIENT, (dy, w), (strides, padding, dilation, groups, precision, spatial))


def convolution_weight_gradient(
    x: Node, dy: Node, strides: Pair, padding: Padding, dilation: Pair, groups: int, window: Shape,
    precision: DType | None = None,
) -> Node:  # fmt: skip
    """The cotangent of `convolution`'s w [K, C/groups, *window]."""
    return make_node(_WEIGHT_GRADIENT, (x, dy), (strides, padding, dilation, groups, precision, window))

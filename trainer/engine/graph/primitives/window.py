"""The maximum of each pooling window, its position, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape, make_node
from trainer.engine.graph.primitives.contraction import Padding, Pair, extents_of, window_extents
from trainer.engine.graph.primitives.table import FLOAT, NUMERIC, first_dtype, register

_GEOMETRY = ("window", "strides", "padding", "dilation")


def _shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x,), (window, strides, padding, dilation) = inputs, attributes
    if x.ndim != 4:
        raise refusal("window_argmax", "wrong rank", found=describe(inputs), expected="x [N, C, H, W]")
    extents = window_extents("window_argmax", x.shape[2:], window, strides, padding, dilation, inputs)
    for axis, (extent, (before, _)) in enumerate(zip(x.shape[2:], padding, strict=True)):
        offsets = [place * dilation[axis] - before for place in range(window[axis])]
        starts = [number * strides[axis] for number in range(extents[axis])]
        if not all(any(0 <= start + offset < extent for offset in offsets) for start in starts):
            raise refusal(
                "window_argmax",
                "a window holds nothing but padding",
                found=f"{describe([x])}, window {window}, strides {strides}, padding {padding}, dilation {dilation}",
                expected="padding of at most half the window",
            )
    return (*x.shape[:2], *extents)


def _reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    window, strides, padding, dilation = attributes
    height, width = x.shape[2:]
    rows, columns = extents_of(x.shape[2:], window, strides, padding, dilation)
    best = np.zeros((*x.shape[:2], rows, columns), np.int32)
    found = np.zeros(best.shape, np.bool_)
    value = np.zeros(best.shape, x.dtype)
    for r in range(window[0]):
        for s in range(window[1]):
            h = np.arange(rows) * strides[0] - padding[0][0] + r * dilation[0]
            w = np.arange(columns) * strides[1] - padding[1][0] + s * dilation[1]
            inside = ((h >= 0) & (h < height))[:, None] & ((w >= 0) & (w < width))
            here = x[:, :, np.clip(h, 0, height - 1)[:, None], np.clip(w, 0, width - 1)]
            wins = inside & (~found | (here > value) | ((here != here) & (value == value)))
            position = (h[:, None] * width + w).astype(np.int32)
            best, value = np.where(wins, position, best), np.where(wins, here, value)
            found |= inside
    return best


_WINDOW_ARGMAX = register("window_argmax", "window", _shape, NUMERIC, _reference, _GEOMETRY, result=dtypes.int32)


def window_argmax(x: Node, window: Pair, strides: Pair, padding: Padding, dilation: Pair) -> Node:
    """The position h·W + w of the first maximum of each window of x [N, C, H, W]: int32 [N, C, P, Q].

    Padding never wins, NaN does; a window that holds only padding is rejected.
    """
    return make_node(_WINDOW_ARGMAX, (x,), (window, strides, padding, dilation))


# --- maximum and gradient ---------------------------------------------------------------------------------------------


def _max_reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    places = _reference(attributes, x)
    pixels, flat = (each.reshape(*each.shape[:2], math.prod(each.shape[2:])) for each in (x, places))
    return np.take_along_axis(pixels, flat, 2).reshape(places.shape)


_WINDOW_MAX = register("window_max", "window", _shape, NUMERIC, _max_reference, _GEOMETRY)


def window_max(x: Node, window: Pair, strides: Pair, padding: Padding, dilation: Pair) -> Node:
    """The maximum of each window of x [N, C, H, W]; padding never wins, NaN does. Gradients go to the first maximum."""
    return make_node(_WINDOW_MAX, (x,), (window, strides, padding, dilation))


def _gradient_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    dy, places = inputs
    if dy.ndim != 4 or places.shape != dy.shape or places.dtype is not dtypes.int32:
        expected = "dy [N, C, P, Q] and int32 positions of its shape"
        raise refusal("window_max_gradient", "shapes don't fit", found=describe(inputs), expected=expected)
    window, strides, padding, dilation, spatial = attributes
    extents = window_extents("window_max_gradient", spatial, window, strides, padding, dilation, inputs)
    if dy.shape[2:] != extents:  # the kernel reads dy by this geometry
        expected = f"dy of spatial extents {list(extents)}"
        raise refusal("window_max_gradient", "shapes don't fit", found=describe(inputs), expected=expected)
    return (*dy.shape[:2], *attributes[4])


def _gradient_dtype(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
    return first_dtype("window_max_gradient", FLOAT)(inputs[:1], attributes)


def _gradient_reference(attributes: tuple[Any, ...], dy: np.ndarray, places: np.ndarray) -> np.ndarray:
    height, width = attributes[4]
    pixels = np.zeros((*dy.shape[:2], height * width))
    image, channel = np.ogrid[: dy.shape[0], : dy.shape[1]]
    for row, column in np.ndindex(*dy.shape[2:]):
        np.add.at(pixels, (image, channel, places[..., row, column]), dy[..., row, column])
    return pixels.reshape(*dy.shape[:2], height, width)


_WINDOW_MAX_GRADIENT = register(
    "window_max_gradient", "window", _gradient_shape, _gradient_dtype, _gradient_reference, (*_GEOMETRY, "spatial")
)


def window_max_gradient(
    dy: Node, places: Node, window: Pair, strides: Pair, padding: Padding, dilation: Pair, spatial: Pair
) -> Node:
    """[N, C, H, W]: adds each dy [N, C, P, Q], in row-major order, at its position h·W + w, inside its window."""
    return make_node(_WINDOW_MAX_GRADIENT, (dy, places), (window, strides, padding, dilation, spatial))

"""The window primitive: where the maximum of each pooling window lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Primitive, Shape, make_node
from trainer.engine.graph.primitives.contraction import Padding, Pair, window_extents
from trainer.engine.graph.primitives.table import NUMERIC, first_dtype, register


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
    fields = (x.shape[2:], window, strides, padding, dilation)
    rows, columns = (
        (extent + low + high - spacing * (size - 1) - 1) // stride + 1
        for extent, size, stride, (low, high), spacing in zip(*fields, strict=True)
    )
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


_WINDOW_ARGMAX = register(
    Primitive(
        "window_argmax",
        "window",
        _shape,
        first_dtype("window_argmax", NUMERIC, dtypes.int32),
        None,
        _reference,
        ("window", "strides", "padding", "dilation"),
    )
)


def window_argmax(x: Node, window: Pair, strides: Pair, padding: Padding, dilation: Pair) -> Node:
    """The position h·W + w of the first maximum of each window of x [N, C, H, W]: int32 [N, C, P, Q].

    Padding never wins, NaN does; a window that holds nothing but padding is refused.
    """
    return make_node(_WINDOW_ARGMAX, (x,), (window, strides, padding, dilation))

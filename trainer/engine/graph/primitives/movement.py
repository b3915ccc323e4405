"""Movement primitives: the same values (and padding) in other places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape, make_node
from trainer.engine.graph.primitives.sources import canonical
from trainer.engine.graph.primitives.table import ANY, along_axes, check_axis, composed, register

Ints = tuple[int, ...]


# --- reshape ----------------------------------------------------------------------------------------------------------


def _reshape_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x,), (shape,) = inputs, attributes
    if math.prod(shape) != math.prod(x.shape):
        raise refusal(
            "reshape", "sizes differ", found=f"{describe(inputs)} to {list(shape)}", expected=f"{x.size} elements"
        )
    return shape


RESHAPE = register(
    "reshape", "movement", _reshape_shape, ANY, lambda attributes, x: np.reshape(x, attributes[0]), ("shape",)
)


def reshape(x: Node, shape: Shape) -> Node:
    """The elements of `x` in row-major order as `shape`."""
    return x if x.shape == shape else make_node(RESHAPE, (x,), (shape,))


def alias(x: Node) -> Node:
    """Another node of the same value: a derivative with respect to one of them does not include uses of the other."""
    return make_node(RESHAPE, (x,), (x.shape,))


def is_alias(x: Node) -> bool:
    """Whether `x` is only an alias of its input."""
    return x.operation is RESHAPE and x.inputs[0].shape == x.shape


def origin(x: Node) -> Node:
    """The node that `x` is an alias of, through any number of aliases without a value; else `x` itself."""
    while x.value is None and is_alias(x):
        x = x.inputs[0]
    return x


# --- permute ----------------------------------------------------------------------------------------------------------


def _permute_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x,), (axes,) = inputs, attributes
    if sorted(axes) != list(range(len(x.shape))):
        raise refusal("permute", "not a permutation", found=list(axes), expected=f"each of 0 to {x.ndim - 1} once")
    return tuple([x.shape[axis] for axis in axes])


_PERMUTE = register(
    "permute", "movement", _permute_shape, ANY, lambda attributes, x: np.transpose(x, attributes[0]), ("axes",)
)


def permute(x: Node, axes: Ints) -> Node:
    """Axis i of the result is axis `axes[i]` of `x`."""
    return make_node(_PERMUTE, (x,), (axes,))


# --- expand -----------------------------------------------------------------------------------------------------------


def _expand_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x,), (shape,) = inputs, attributes
    fits = len(shape) == len(x.shape)
    for old, new in zip(x.shape, shape, strict=fits):
        fits = fits and old in (1, new)
    if not fits:
        raise refusal("expand", "only axes of extent 1 grow", found=f"{describe(inputs)} to {list(shape)}")
    return shape


EXPAND = register(
    "expand", "movement", _expand_shape, ANY, lambda attributes, x: np.broadcast_to(x, attributes[0]), ("shape",)
)


def expand(x: Node, shape: Shape) -> Node:
    """`x` repeated along axes of extent 1, to `shape` of the same rank."""
    return make_node(EXPAND, (x,), (shape,))


# --- pad --------------------------------------------------------------------------------------------------------------


def _pad_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x,), (low, high, interior, _) = inputs, attributes
    if not len(low) == len(high) == len(interior) == x.ndim or min((*low, *high, *interior, 0)) < 0:
        raise refusal(
            "pad",
            "wrong amounts",
            found=f"{describe(inputs)}, low {list(low)}, high {list(high)}, interior {list(interior)}",
            expected="for each axis three numbers of at least 0",
        )
    return _padded(x.shape, low, high, interior)


def _padded(shape: Shape, low: Ints, high: Ints, interior: Ints) -> Shape:
    return tuple(
        before + after + extent + between * max(0, extent - 1)
        for extent, before, after, between in zip(shape, low, high, interior, strict=True)
    )


def inside(shape: Shape, low: Ints, interior: Ints) -> tuple[slice, ...]:
    """The slices that the elements of an array of `shape` occupy after padding."""
    return tuple(
        slice(before, before + (extent - 1) * (between + 1) + 1 if extent else before, between + 1)
        for extent, before, between in zip(shape, low, interior, strict=True)
    )


def _pad_reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    low, high, interior, value = attributes
    result = np.full(_padded(x.shape, low, high, interior), value, x.dtype)
    result[inside(x.shape, low, interior)] = x
    return result


_PAD = register("pad", "movement", _pad_shape, ANY, _pad_reference, ("low", "high", "interior", "value"))


def pad(x: Node, low: Ints, high: Ints, interior: Ints, value: bool | int | float = 0) -> Node:
    """`x` with `value` before, after and between its elements along each axis; counts are at least 0."""
    if x.dtype.is_complex and value != 0:
        return composed(_PAD, (x,), (low, high, interior, value))
    return make_node(_PAD, (x,), (low, high, interior, canonical(value, x.dtype)))


# --- slice ------------------------------------------------------------------------------------------------------------


def _slice_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x,), (starts, stops, steps) = inputs, attributes
    shape = [
        -((start - stop) // step)
        for extent, start, stop, step in zip(x.shape, starts, stops, steps, strict=False)
        if 0 <= start <= stop <= extent and step > 0
    ]
    if not len(starts) == len(stops) == len(steps) == len(shape) == x.ndim:
        raise refusal(
            "slice",
            "wrong bounds",
            found=f"{describe(inputs)}, start {list(starts)}, stop {list(stops)}, step {list(steps)}",
            expected="for each axis 0 <= start <= stop <= extent and step > 0",
        )
    return tuple(shape)


SLICE = register(
    "slice", "movement", _slice_shape, ANY,
    lambda attributes, x: x[tuple(slice(*bounds) for bounds in zip(*attributes, strict=True))],
    ("start", "stop", "step"),
)  # fmt: skip


def slice_(x: Node, start: Ints, stop: Ints, step: Ints) -> Node:
    """x[start:stop:step] along each axis; steps are positive, bounds inside `x`."""
    return make_node(SLICE, (x,), (start, stop, step))


# --- windows ----------------------------------------------------------------------------------------------------------


def _windows_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (x,), (axis, size, stride, spacing) = inputs, attributes
    check_axis("windows", axis, x.ndim)
    span = spacing * (size - 1) + 1
    if min(size, stride, spacing) < 1 or span > x.shape[axis]:
        raise refusal(
            "windows",
            "no such windows",
            found=f"{describe(inputs)}, axis {axis}, size {size}, stride {stride}, dilation {spacing}",
            expected=f"size, stride and dilation of at least 1, and dilation·(size - 1) + 1 of at most {x.shape[axis]}",
        )
    return (*x.shape[:axis], (x.shape[axis] - span) // stride + 1, size, *x.shape[axis + 1 :])


def window_places(count: int, size: int, stride: int, spacing: int) -> np.ndarray:
    """The index along the axis of each element of each window: [count, size]."""
    return np.arange(count)[:, None] * stride + np.arange(size) * spacing


def _windows_reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    axis, size, stride, spacing = attributes
    count = (x.shape[axis] - spacing * (size - 1) - 1) // stride + 1
    return np.take(x, window_places(count, size, stride, spacing), axis)


_WINDOWS = register(
    "windows", "movement", _windows_shape, ANY, _windows_reference, ("axis", "size", "stride", "spacing")
)


def windows(x: Node, axis: int, size: int, stride: int, spacing: int) -> Node:
    """Windows of `size` elements, `spacing` apart, that begin every `stride` along `axis`; two axes replace it."""
    return make_node(_WINDOWS, (x,), (axis, size, stride, spacing))


# --- flip and concatenate ---------------------------------------------------------------------------------------------


_FLIP = register(
    "flip", "movement", along_axes("flip"), ANY, lambda attributes, x: np.flip(x, attributes[0]), ("axes",)
)


def flip(x: Node, axes: Ints) -> Node:
    """`x` with the order of its elements along `axes` reversed."""
    return make_node(_FLIP, (x,), (axes,)) if axes else x


def _concatenate_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    (axis,), first = attributes, inputs[0].shape
    check_axis("concatenate", axis, len(first))
    rest = first[:axis] + first[axis + 1 :]
    for other in inputs:
        if len(other.shape) != len(first) or other.shape[:axis] + other.shape[axis + 1 :] != rest:
            raise refusal(
                "concatenate",
                "shapes don't fit together",
                found=describe(inputs),
                expected=f"shapes that differ along axis {axis} only",
            )
    return (*first[:axis], sum(x.shape[axis] for x in inputs), *first[axis + 1 :])


_CONCATENATE = register(
    "concatenate", "movement", _concatenate_shape, ANY, lambda attributes, *parts: np.concatenate(parts, attributes[0]),
    ("axis",),
)  # fmt: skip


def concatenate(parts: Sequence[Node], axis: int) -> Node:
    """`parts` joined in order along `axis`."""
    return make_node(_CONCATENATE, tuple(parts), (axis,))

"""Reductions and scans along axes. The reference sums floats in float64.

The two moments of a set of numbers, its mean and the sum of squared deviations from it, are separate primitives
because one pass over memory computes both accurately: a device may use distances from some element, block by block.
A mean of squares would cancel, and two passes would read everything twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.primitives import table
from trainer.engine.graph.primitives.elementwise import subtract

Axes = tuple[int, ...]


def _reduced_shape(name: str, *, needs_elements: bool) -> table.ShapeRule:
    """The rule that the axes of attribute 0 (in ascending order) are dropped."""

    def rule(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
        x, axes = inputs[0], table.axes_of(attributes)
        last = -1
        for axis in axes:
            if not last < axis < len(x.shape):
                table.check_axis(name, axis, len(x.shape))
                raise refusal(name, "axes repeat or are not in order", found=list(axes), expected="rising axes")
            last = axis
        if needs_elements and 0 in x.shape and any(x.shape[axis] == 0 for axis in axes):
            raise refusal(name, "of no elements", found=describe(inputs), expected=f"elements along axes {list(axes)}")
        return tuple([extent for axis, extent in enumerate(x.shape) if axis not in axes])

    return rule


def _reduction(
    name: str, reference: Callable[..., Any], *, needs_elements: bool = True, dtype: table.DTypeRule | None = None,
    result: DType | None = None, attribute: str = "axes", of_no_axes: Callable[[Node], Node] = lambda x: x,
) -> Callable[[Node, Any], Node]:  # fmt: skip
    """A reduction along `axes`, or along one `axis`. `of_no_axes` gives the result for an empty tuple of axes."""
    shape = _reduced_shape(name, needs_elements=needs_elements)
    primitive = table.register(
        name, "reduction", shape, dtype or table.NUMERIC, lambda attributes, x: reference(x, axis=attributes[0]),
        (attribute,), result=result,
    )  # fmt: skip
    return table.named(name, lambda x, axes: of_no_axes(x) if axes == () else table.composed(primitive, (x,), (axes,)))


def _wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Reduces floats in float64, and integers in their own width (wrapping)."""
    return lambda x, axis: function(x, axis=axis, dtype=np.float64 if x.dtype.kind == "f" else x.dtype)


def _deviations(x: np.ndarray, axis: Axes) -> np.ndarray:
    distance = x - np.mean(x, axis=axis, dtype=np.float64, keepdims=True)
    return np.sum(distance * distance, axis=axis)


reduce_sum = _reduction("reduce_sum", _wide(np.sum), needs_elements=False)
reduce_prod = _reduction("reduce_prod", _wide(np.prod), needs_elements=False)
reduce_max = _reduction("reduce_max", np.max)
reduce_min = _reduction("reduce_min", np.min)
reduce_mean = _reduction("reduce_mean", _wide(np.mean), dtype=table.single_or_double("reduce_mean"))
reduce_deviations = _reduction(  # without axes: 0, or NaN where x is not finite
    "reduce_deviations",
    _deviations,
    dtype=table.single_or_double("reduce_deviations"),
    of_no_axes=lambda x: subtract(x, x),
)
argmax = _reduction("argmax", np.argmax, result=dtypes.int64, attribute="axis")  # the first of equal elements; NaN wins
argmin = _reduction("argmin", np.argmin, result=dtypes.int64, attribute="axis")

_SUMS = table.register(
    "cumulative_sum", "reduction", table.along_axes("cumulative_sum"), table.NUMERIC,
    lambda attributes, x: _wide(np.cumsum)(x, axis=attributes[0]), ("axis",),
)  # fmt: skip


_PRODUCTS = table.register(
    "cumulative_prod", "reduction", table.along_axes("cumulative_prod"), table.NUMERIC,
    lambda attributes, x: _wide(np.cumprod)(x, axis=attributes[0]), ("axis",),
)  # fmt: skip


def cumulative_prod(x: Node, axis: int) -> Node:
    """Products of the elements up to and including each place along `axis`."""
    return table.composed(_PRODUCTS, (x,), (axis,))


def cumulative_sum(x: Node, axis: int) -> Node:
    """Sums of the elements up to and including each place along `axis`."""
    return table.composed(_SUMS, (x,), (axis,))

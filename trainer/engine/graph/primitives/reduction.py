"""Reductions and scans along axes. Floats are summed in float64 by the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Primitive, Shape, make_node
from trainer.engine.graph.primitives.table import NUMERIC, check_axis, first_dtype, first_shape, register

Axes = tuple[int, ...]


def reduced_shape(name: str, *, needs_elements: bool) -> Callable[[Sequence[Node], tuple[Any, ...]], Shape]:
    """The rule that the axes of attribute 0 (rising) are dropped."""

    def rule(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
        x = inputs[0]
        axes = attributes[0] if isinstance(attributes[0], tuple) else attributes
        last = -1
        for axis in axes:
            check_axis(name, axis, len(x.shape))
            if axis <= last:
                raise refusal(name, "axes repeat or are not in order", found=list(axes), expected="rising axes")
            last = axis
        if needs_elements and 0 in x.shape and any(x.shape[axis] == 0 for axis in axes):
            raise refusal(name, "of no elements", found=describe(inputs), expected=f"elements along axes {list(axes)}")
        return tuple([extent for axis, extent in enumerate(x.shape) if axis not in axes])

    return rule


def _reduction(name: str, reference: Callable[..., Any], *, needs_elements: bool) -> Callable[[Node, Axes], Node]:
    primitive = register(
        Primitive(
            name,
            "reduction",
            reduced_shape(name, needs_elements=needs_elements),
            first_dtype(name, NUMERIC),
            lambda attributes, x: reference(x, axis=attributes[0]),
            ("axes",),
        )
    )

    def build(x: Node, axes: Axes) -> Node:
        return make_node(primitive, (x,), (axes,)) if axes else x

    build.__name__ = build.__qualname__ = name
    return build


def _wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """In float64 for floats, and in their own width (wrapping) for integers."""
    return lambda x, axis: function(x, axis=axis, dtype=np.float64 if x.dtype.kind == "f" else x.dtype)


reduce_sum = _reduction("reduce_sum", _wide(np.sum), needs_elements=False)
reduce_prod = _reduction("reduce_prod", _wide(np.prod), needs_elements=False)
reduce_max = _reduction("reduce_max", np.max, needs_elements=True)
reduce_min = _reduction("reduce_min", np.min, needs_elements=True)


def _position(name: str, reference: Callable[..., Any]) -> Callable[[Node, int], Node]:
    primitive = register(
        Primitive(
            name,
            "reduction",
            reduced_shape(name, needs_elements=True),
            first_dtype(name, NUMERIC, dtypes.int64),
            lambda attributes, x: reference(x, axis=attributes[0]),
            ("axis",),
        )
    )

    def build(x: Node, axis: int) -> Node:
        return make_node(primitive, (x,), (axis,))

    build.__name__ = build.__qualname__ = name
    return build


argmax = _position("argmax", np.argmax)  # the first of equals; the first NaN wins
argmin = _position("argmin", np.argmin)


def _scan_shape(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Shape:
    check_axis("cumulative_sum", attributes[0], inputs[0].ndim)
    return first_shape(inputs, attributes)


_CUMULATIVE_SUM = register(
    Primitive(
        "cumulative_sum",
        "reduction",
        _scan_shape,
        first_dtype("cumulative_sum", NUMERIC),
        lambda attributes, x: _wide(np.cumsum)(x, axis=attributes[0]),
        ("axis",),
    )
)


def cumulative_sum(x: Node, axis: int) -> Node:
    """Sums of the elements up to and including each place along `axis`."""
    return make_node(_CUMULATIVE_SUM, (x,), (axis,))

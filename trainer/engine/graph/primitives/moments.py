"""The two moments of a set of numbers: its mean, and the sum of squared deviations from it.

They are primitives of their own because one pass over memory gives both, accurately: a device may take distances from
some element, block by block, where a mean of squares would cancel and two passes would read everything twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Primitive, make_node
from trainer.engine.graph.primitives.binary import subtract
from trainer.engine.graph.primitives.reduction import Axes, reduced_shape
from trainer.engine.graph.primitives.table import register


def _dtype(name: str) -> Callable[[Sequence[Node], tuple[Any, ...]], DType]:
    def rule(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> DType:
        if inputs[0].dtype.name not in ("float32", "float64"):
            raise refusal(
                name, f"does not take {inputs[0].dtype}", found=describe(inputs), expected="float32 or float64"
            )
        return inputs[0].dtype

    return rule


def _mean_reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    return np.mean(x, axis=attributes[0], dtype=np.float64)


def _deviations_reference(attributes: tuple[Any, ...], x: np.ndarray) -> np.ndarray:
    distance = x - np.mean(x, axis=attributes[0], dtype=np.float64, keepdims=True)
    return np.sum(distance * distance, axis=attributes[0])


def _register(name: str, reference: Callable[..., Any]) -> Primitive:
    shape = reduced_shape(name, needs_elements=True)
    return register(Primitive(name, "reduction", shape, _dtype(name), reference, ("axes",)))


_REDUCE_MEAN = _register("reduce_mean", _mean_reference)
_REDUCE_DEVIATIONS = _register("reduce_deviations", _deviations_reference)


def reduce_mean(x: Node, axes: Axes) -> Node:
    """The mean along `axes` (all of them rising); float32 or float64. Reads memory once beside `reduce_deviations`."""
    return make_node(_REDUCE_MEAN, (x,), (axes,)) if axes else x


def reduce_deviations(x: Node, axes: Axes) -> Node:
    """The sum of (x - mean)² along `axes`; float32 or float64. Over no axes it is 0, or NaN where x is not finite."""
    return make_node(_REDUCE_DEVIATIONS, (x,), (axes,)) if axes else subtract(x, x)

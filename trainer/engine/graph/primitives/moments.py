"""The two moments of a set of numbers: its mean, and the sum of squared deviations from it.

They are primitives of their own because one pass over memory gives both, accurately: a device may take distances from
some element, block by block, where a mean of squares would cancel and two passes would read everything twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Primitive, make_node
from trainer.engine.graph.primitives.compose import scale, spread
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


def _count(node: Node) -> int:
    return node.inputs[0].size // max(1, node.size)


def _mean_gradient(node: Node, dy: Node) -> tuple[Node]:
    share = p.divide(dy, p.full_like(dy, float(_count(node))))
    return (spread(share, node.attributes[0], node.inputs[0].shape),)


def _deviations_gradient(node: Node, dy: Node) -> tuple[Node]:
    """2·(x - mean)·dy: the mean's own share vanishes, as the distances from it add up to zero."""
    x, axes = node.inputs[0], node.attributes[0]
    distance = p.subtract(x, spread(reduce_mean(x, axes), axes, x.shape))
    return (p.multiply(distance, spread(scale(dy, 2.0), axes, x.shape)),)


def _register(name: str, gradient: Callable[[Node, Node], Sequence[Node]], reference: Callable[..., Any]) -> Primitive:
    shape = reduced_shape(name, needs_elements=True)
    return register(Primitive(name, "reduction", shape, _dtype(name), gradient, reference, ("axes",)))


_REDUCE_MEAN = _register("reduce_mean", _mean_gradient, _mean_reference)
_REDUCE_DEVIATIONS = _register("reduce_deviations", _deviations_gradient, _deviations_reference)


def reduce_mean(x: Node, axes: Axes) -> Node:
    """The mean along `axes` (all of them rising); float32 or float64. Reads memory once beside `reduce_deviations`."""
    return make_node(_REDUCE_MEAN, (x,), (axes,)) if axes else x


def reduce_deviations(x: Node, axes: Axes) -> Node:
    """The sum of (x - mean)² along `axes`; float32 or float64. Over no axes it is 0, or NaN where x is not finite."""
    return make_node(_REDUCE_DEVIATIONS, (x,), (axes,)) if axes else p.subtract(x, x)

"""Markers: the value of the first input passes unchanged; they direct graph passes and gradients."""

from __future__ import annotations

from trainer.engine.graph.node import Node, make_node
from trainer.engine.graph.primitives.table import ANY, first_shape, register

_BARRIER = register("barrier", "marker", first_shape, ANY, lambda attributes, x: x, ("tag",))
_STOP_GRADIENT = register("stop_gradient", "marker", first_shape, ANY, lambda attributes, x: x)
_ANCHOR = register(
    "anchor", "marker", first_shape, lambda inputs, attributes: inputs[0].dtype, lambda attributes, x, origin: x
)


def anchor(x: Node, origin: Node) -> Node:
    """`x`, whose derivatives with respect to what `origin` depends on are zero where `x` does not depend on it."""
    return make_node(_ANCHOR, (x, origin))


def barrier(x: Node, tag: str | int = 0) -> Node:
    """`x`, computed apart: fusion and the merging of common subexpressions stop here (other tags differ)."""
    return make_node(_BARRIER, (x,), (tag,))


def stop_gradient(x: Node) -> Node:
    """`x` as if it were constant: gradients don't pass."""
    return make_node(_STOP_GRADIENT, (x,))

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
    """`x`; its derivative is zero, not None, with respect to nodes that `origin` depends on and `x` does not."""
    return make_node(_ANCHOR, (x, origin))


def barrier(x: Node, tag: str | int = 0) -> Node:
    """`x`, computed separately: fusion stops here, and so does merging of equal nodes (unless tags are equal)."""
    return make_node(_BARRIER, (x,), (tag,))


def stop_gradient(x: Node) -> Node:
    """`x` as a constant: gradients don't pass."""
    return make_node(_STOP_GRADIENT, (x,))

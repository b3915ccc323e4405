"""Derivatives of the movement primitives: each moves the cotangent back."""

from __future__ import annotations

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Gradient, Node
from trainer.engine.graph.primitives.compose import scale
from trainer.engine.graph.primitives.movement import inside


def _permute(node: Node, dy: Node) -> tuple[Node]:
    axes = node.attributes[0]
    return (p.permute(dy, tuple(sorted(range(len(axes)), key=axes.__getitem__))),)


def _expand(node: Node, dy: Node) -> tuple[Node]:
    x = node.inputs[0]
    axes = tuple(axis for axis, (old, new) in enumerate(zip(x.shape, node.shape, strict=True)) if old != new)
    return (p.reshape(p.reduce_sum(dy, axes), x.shape),)


def _pad(node: Node, dy: Node) -> tuple[Node]:
    low, _, interior, _ = node.attributes
    places = inside(node.inputs[0].shape, low, interior)
    return (p.slice_(dy, *(tuple(getattr(place, field) for place in places) for field in ("start", "stop", "step"))),)


def _slice(node: Node, dy: Node) -> tuple[Node]:
    x, (starts, _, steps) = node.inputs[0], node.attributes
    interior = tuple(step - 1 for step in steps)
    high = tuple(
        extent - (place.stop if count else place.start)
        for extent, count, place in zip(x.shape, dy.shape, inside(dy.shape, starts, interior), strict=True)
    )
    return (p.pad(dy, starts, high, interior, 0),)


def _windows(node: Node, dy: Node) -> tuple[Node]:
    """Adds the cotangent of each window at the places of its elements."""
    x, (axis, size, stride, spacing) = node.inputs[0], node.attributes
    shape = (node.shape[axis], size)
    start, inside = (p.iota(shape, each, dtypes.int32) for each in range(2))
    places = p.add(scale(start, stride), scale(inside, spacing))
    return (p.scatter_add(dy, places, axis, x.shape[axis]),)


def _concatenate(node: Node, dy: Node) -> list[Node]:
    (axis,), parts, begin = node.attributes, [], 0
    for x in node.inputs:
        start, stop = [0] * dy.ndim, list(dy.shape)
        start[axis], stop[axis] = begin, begin + x.shape[axis]
        parts.append(p.slice_(dy, tuple(start), tuple(stop), (1,) * dy.ndim))
        begin = stop[axis]
    return parts


GRADIENTS: dict[str, Gradient | None] = {
    "reshape": lambda node, dy: (p.reshape(dy, node.inputs[0].shape),),
    "permute": _permute,
    "expand": _expand,
    "pad": _pad,
    "slice": _slice,
    "windows": _windows,
    "flip": lambda node, dy: (p.flip(dy, node.attributes[0]),),
    "concatenate": _concatenate,
}

"""Padding and concatenation: the parts are computed straight into their places."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from trainer.engine.graph.node import Node

Part = tuple[Node, int, tuple[int, ...]]
"""An input, the element of the output where it begins, and the strides in the output along its axes."""


def parts_of_pad(node: Node, strides: tuple[int, ...]) -> Iterator[Part]:
    """The input of a pad; interior padding becomes a stride."""
    low, interior = node.attribute("low"), node.attribute("interior")
    offset = sum(step * before for step, before in zip(strides, low, strict=True))
    yield node.inputs[0], offset, tuple(step * (gap + 1) for step, gap in zip(strides, interior, strict=True))


def parts_of_concatenate(node: Node, strides: tuple[int, ...]) -> Iterator[Part]:
    """Each input in its range of the axis."""
    axis = node.attribute("axis")
    starts = accumulate((source.shape[axis] for source in node.inputs), initial=0)
    for source, start in zip(node.inputs, starts, strict=False):
        yield source, start * strides[axis], strides

"""What makes two graphs share a program, and what such a program is given each time it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.engine.graph import dtypes
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives import TABLE
from trainer.engine.graph.primitives.movement import RESHAPE, SLICE
from trainer.engine.graph.primitives.sources import CONSTANT
from trainer.engine.graph.simplify import SPECIAL_NUMBERS

_MOVES = frozenset({SLICE, RESHAPE, TABLE["permute"], TABLE["flip"]})
_LONGEST_PATH = 8
"""Nodes between a leaf and a slice of it whose beginning is an argument: each such slice has a path of its own."""


Arguments = tuple[list[Node], list[Node], list[Node]]
"""Nodes with a value; constants other than special numbers; and slices of a leaf, or of a leaf moved."""


def signature(outputs: Sequence[Node]) -> tuple[tuple[Any, ...], Arguments]:
    """A key of the graph that computes `outputs`, which graphs share that differ in their arguments alone; and these.

    Nodes are numbered as they are found from `outputs` on, so the key does not depend on when they were made.
    """
    found = list(dict.fromkeys(outputs))
    number = {node: place for place, node in enumerate(found)}
    key: list[Any] = [number[node] for node in outputs]
    leaves: list[Node] = []
    constants: list[Node] = []
    slices: list[Node] = []
    for node in found:  # which grows
        operation = node.operation
        if node.value is not None:
            leaves.append(node)
            key += (node.value.layout.order, node.shape, node.dtype.name)
        elif operation is CONSTANT and node.attributes[0] not in SPECIAL_NUMBERS:
            constants.append(node)
            key.append(node.dtype.name)
        else:
            key.append(operation)
            for source in node.inputs:
                place = number.get(source)
                if place is None:
                    place = number[source] = len(found)
                    found.append(source)
                key.append(place)
            if operation is SLICE and _only_moves_a_leaf(node.inputs[0]):
                slices.append(node)
                key += (node.shape, node.attributes[2])
            else:
                key.append(node.attributes)
    return tuple(key), (leaves, constants, slices)


def _only_moves_a_leaf(node: Node) -> bool:
    """Whether few nodes move elements of a leaf to `node`, by strides. Of bfloat16, kernels ask where pairs begin."""
    for _ in range(_LONGEST_PATH):
        if node.value is not None:
            return node.dtype is not dtypes.bfloat16
        if node.operation not in _MOVES or (node.operation is RESHAPE and not _moves_units(node)):
            return False
        node = node.inputs[0]
    return False


def _moves_units(node: Node) -> bool:
    """Whether a reshape only adds and drops axes of extent 1, as an integer index does."""
    return [extent for extent in node.shape if extent != 1] == [
        extent for extent in node.inputs[0].shape if extent != 1
    ]

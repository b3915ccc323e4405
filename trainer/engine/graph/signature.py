"""The key by which graphs share a program, and the arguments of each run of the program."""

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
"""Maximum number of nodes between a leaf and a slice whose start is an argument: each such slice has its own path."""


Arguments = tuple[list[Node], list[Node], list[Node]]
"""Nodes with a value; constants other than special numbers; and slices of a leaf or of a moved leaf."""


def signature(outputs: Sequence[Node]) -> tuple[tuple[Any, ...], Arguments]:
    """Returns the key and the arguments of the graph behind `outputs`; graphs that differ only in these share the key.

    Nodes are numbered in the order of the search from `outputs`, so the key does not depend on when they were made.
    """
    found = list(dict.fromkeys(outputs))
    number = {node: place for place, node in enumerate(found)}
    key: list[Any] = [number[node] for node in outputs]
    leaves: list[Node] = []
    constants: list[Node] = []
    slices: list[Node] = []
    for node in found:  # the list grows
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
    """Whether a few strided movements lead from a leaf to `node`. Not bfloat16: kernels depend on where pairs begin."""
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

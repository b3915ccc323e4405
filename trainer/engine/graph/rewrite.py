"""Whole-graph helpers: rebuilding with some nodes replaced, and a key that equal graphs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainer.engine.graph.node import Node, make_node, uncomputed


def replaced(outputs: Sequence[Node], instead: Mapping[Node, Node]) -> list[Node]:
    """`outputs` with every node of `instead` exchanged for its value, and what depends on it rebuilt.

    Nodes with a value stay as they are, unless `instead` has them.
    """
    fresh: dict[Node, Node] = dict(instead)
    for node in uncomputed(outputs):
        if node not in fresh:
            inputs = node.inputs if node.value is not None else tuple([fresh[source] for source in node.inputs])
            fresh[node] = node if inputs == node.inputs else make_node(node.operation, inputs, node.attributes)
    return [fresh[node] for node in outputs]


def structural_key(outputs: Sequence[Node]) -> tuple[Any, list[Node]]:
    """A hashable key of the graph that does not depend on which memory its leaves hold, and the leaves in the key's
    order: the nodes with a value.
    """
    order = uncomputed(outputs)
    number: dict[Node, int] = {}
    parts: list[Any] = []
    leaves: list[Node] = []
    for node in order:
        number[node] = len(number)
        if node.value is not None:
            leaves.append(node)
            parts.append((node.shape, node.dtype, node.value.layout))
        else:
            parts.append((node.name, tuple([number[source] for source in node.inputs]), typed(node.attributes)))
    return (tuple(parts), tuple([number[node] for node in outputs])), leaves


def typed(attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Attributes that differ where 1, 1.0 and True do."""
    return tuple([(type(value), value) if isinstance(value, bool | int | float) else value for value in attributes])

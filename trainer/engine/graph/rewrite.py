"""Whole-graph helpers: rebuilding with some nodes replaced, and attributes as keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainer.engine.graph.lines import inherited
from trainer.engine.graph.node import Node, make_node, uncomputed


def replaced(outputs: Sequence[Node], instead: Mapping[Node, Node]) -> list[Node]:
    """`outputs` with every node of `instead` exchanged for its value, and what depends on it rebuilt.

    Nodes with a value stay as they are, unless `instead` has them.
    """
    fresh: dict[Node, Node] = dict(instead)
    for node in inherited(uncomputed(outputs)):
        if node not in fresh:
            inputs = node.inputs if node.value is not None else tuple([fresh[source] for source in node.inputs])
            fresh[node] = node if inputs == node.inputs else make_node(node.operation, inputs, node.attributes)
    return [fresh[node] for node in outputs]


def typed(attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Attributes that differ where 1, 1.0 and True do."""
    return tuple([(type(value), value) if isinstance(value, bool | int | float) else value for value in attributes])

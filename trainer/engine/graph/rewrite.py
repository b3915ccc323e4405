"""Whole-graph helpers: rebuilding node by node or with some nodes replaced, and attributes as keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.engine.graph.lines import inherited
from trainer.engine.graph.node import Node, make_node, topological, uncomputed


def on(node: Node, inputs: tuple[Node, ...]) -> Node:
    """A node that computes of `inputs` what `node` does of its own; `node` itself on its own."""
    return node if inputs == node.inputs else make_node(node.operation, inputs, node.attributes)


def rebuilt(outputs: Sequence[Node], rule: Callable[[Node, tuple[Node, ...]], Node]) -> list[Node]:
    """`outputs` with every node replaced by what `rule` makes of it and of its new inputs."""
    fresh: dict[Node, Node] = {}
    for node in inherited(topological(outputs)):
        fresh[node] = rule(node, tuple([fresh[source] for source in node.inputs]))
    return [fresh[node] for node in outputs]


def replaced(outputs: Sequence[Node], instead: Mapping[Node, Node]) -> list[Node]:
    """`outputs` with every node of `instead` exchanged for its value, and what depends on it rebuilt.

    Nodes with a value stay as they are, unless `instead` has them.
    """
    fresh: dict[Node, Node] = dict(instead)
    for node in inherited(uncomputed(outputs)):
        if node not in fresh:
            is_known = node.value is not None
            fresh[node] = node if is_known else on(node, tuple([fresh[source] for source in node.inputs]))
    return [fresh[node] for node in outputs]


def typed(attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Attributes that differ where 1, 1.0 and True do."""
    return tuple([(type(value), value) if isinstance(value, bool | int | float) else value for value in attributes])

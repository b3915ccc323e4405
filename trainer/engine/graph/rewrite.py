"""Helpers for whole graphs: rebuild each node, or replace some nodes; and attributes as keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.engine.graph.lines import inherited
from trainer.engine.graph.node import Node, make_node, topological, uncomputed


def on(node: Node, inputs: tuple[Node, ...]) -> Node:
    """Returns a node of `node`'s operation on `inputs`; `node` itself if these are its inputs."""
    return node if inputs == node.inputs else make_node(node.operation, inputs, node.attributes)


def rebuilt(outputs: Sequence[Node], rule: Callable[[Node, tuple[Node, ...]], Node]) -> list[Node]:
    """Returns `outputs` with every node replaced by `rule(node, new inputs)`."""
    fresh: dict[Node, Node] = {}
    for node in inherited(topological(outputs)):
        fresh[node] = rule(node, tuple([fresh[source] for source in node.inputs]))
    return [fresh[node] for node in outputs]


def replaced(outputs: Sequence[Node], instead: Mapping[Node, Node]) -> list[Node]:
    """Returns `outputs` with every node of `instead` replaced by its value there, and its users rebuilt.

    Nodes with a value are kept, unless `instead` has them.
    """
    fresh: dict[Node, Node] = dict(instead)
    for node in inherited(uncomputed(outputs)):
        if node not in fresh:
            is_known = node.value is not None
            fresh[node] = node if is_known else on(node, tuple([fresh[source] for source in node.inputs]))
    return [fresh[node] for node in outputs]


def typed(attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns attributes as a key in which 1, 1.0 and True differ."""
    return tuple([(type(value), value) if isinstance(value, bool | int | float) else value for value in attributes])

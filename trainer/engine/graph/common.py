"""Common subexpressions: nodes of the same operation, inputs and attributes are merged before a graph is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.engine.graph import primitives as p
from trainer.engine.graph.lines import inherited
from trainer.engine.graph.node import Node, equality_key, make_node, topological


class Common:
    """The nodes of a graph in the making, one of each kind: the first that `of` was asked for."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Node] = {}
        self._members: set[Node] = set()

    def of(self, node: Node) -> Node:
        """The node of the graph that computes what `node` does; `node` itself, on nodes of the graph, if it is new."""
        if node in self._members:
            return node
        inputs = tuple([self.of(source) for source in node.inputs])
        key = equality_key(node, inputs)
        found = self._known.get(key)
        if found is None:
            found = node if inputs == node.inputs else make_node(node.operation, inputs, node.attributes)
            self._known[key] = found
            self._members.add(found)
        return found


def merged(outputs: Sequence[Node]) -> list[Node]:
    """`outputs` of a graph in which no two nodes compute the same, without what only derivatives need."""
    common = Common()
    fresh: dict[Node, Node] = {}
    for node in inherited(topological(outputs)):
        inputs = tuple([fresh[source] for source in node.inputs])
        if node.name == "anchor" or p.is_alias(node):
            fresh[node] = inputs[0]
        else:
            same = inputs == node.inputs
            fresh[node] = common.of(node if same else make_node(node.operation, inputs, node.attributes))
    return [fresh[node] for node in outputs]

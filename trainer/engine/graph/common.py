"""Common subexpressions: nodes of the same operation, inputs and attributes are merged before a graph is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node, equality_key
from trainer.engine.graph.rewrite import on, rebuilt


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
            found = self._known[key] = on(node, inputs)
            self._members.add(found)
        return found


def merged(outputs: Sequence[Node]) -> list[Node]:
    """`outputs` of a graph in which no two nodes compute the same, without what only derivatives need."""
    common = Common()

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        is_passed = node.name in ("anchor", "with_gradient") or p.is_alias(node)
        return inputs[0] if is_passed else common.of(on(node, inputs))

    return rebuilt(outputs, rule)

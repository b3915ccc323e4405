"""Common subexpression elimination: merges nodes of equal operation, inputs and attributes before computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node, equality_key
from trainer.engine.graph.rewrite import on, rebuilt


class Common:
    """The nodes of a graph under construction; of equal nodes, only the first that `of` receives is added."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Node] = {}
        self._members: set[Node] = set()

    def of(self, node: Node) -> Node:
        """Returns the graph's node that is equal to `node`; if it has none, adds `node`, on inputs from the graph."""
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
    """Returns `outputs` in a graph without equal nodes and without nodes that only derivatives need."""
    common = Common()

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        is_passed = node.name in ("anchor", "with_gradient") or p.is_alias(node)
        return inputs[0] if is_passed else common.of(on(node, inputs))

    return rebuilt(outputs, rule)

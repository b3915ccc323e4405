"""Reverse-mode differentiation, graph to graph: gradients are nodes like any other, so every order of derivative works.

Griewank & Walther, "Evaluating derivatives", 2008, chapter 3. The rules are in the table of primitives.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.primitives.compose import add_all


def gradients(output: Node, wrt: Sequence[Node], cotangent: Node) -> list[Node | None]:
    """The cotangents of `wrt`, given `output`'s; None for a node that `output` does not depend on.

    Only nodes on a path from one of `wrt` to `output` are visited. Cotangents that meet are added in the order from the
    last use to the first.
    """
    order = topological([output])
    varying = _varying(order, wrt)
    cotangents: dict[Node, list[Node]] = {output: [cotangent]}
    found: dict[Node, Node] = {}
    targets = set(wrt)
    for node in reversed(order):
        if node not in varying:
            continue
        parts = cotangents.pop(node, None)
        if parts is None:
            continue  # its users' derivatives are zero everywhere
        total = add_all(parts)
        if node in targets:
            found[node] = total
        gradient = node.operation.gradient
        if gradient is None or not any(source in varying for source in node.inputs):
            continue
        for source, part in zip(node.inputs, gradient(node, total), strict=True):
            if part is not None and source in varying:
                cotangents.setdefault(source, []).append(part)
    return [_or_zero(found.get(node), node, varying, output) for node in wrt]


def _varying(order: Sequence[Node], wrt: Sequence[Node]) -> set[Node]:
    """The floating-point nodes that change when one of `wrt` does, by a path that gradients can pass."""
    varying = {node for node in wrt if node.dtype.is_float}
    for node in order:
        if (
            node.operation.gradient is not None
            and node.dtype.is_float
            and node not in varying
            and not varying.isdisjoint(node.inputs)
        ):
            varying.add(node)
    return varying


def _or_zero(found: Node | None, node: Node, varying: set[Node], output: Node) -> Node | None:
    """Zeros where `node` is used but its derivative vanishes everywhere (as floor's does)."""
    if found is not None:
        return found
    return p.full(node.shape, 0.0, node.dtype) if _reaches(node, varying, output) else None


def _reaches(node: Node, varying: set[Node], output: Node) -> bool:
    stack, seen = [output], {output}
    while stack:
        current = stack.pop()
        if current is node:
            return True
        if current.operation.gradient is not None:
            for source in current.inputs:
                if source in varying and source not in seen:
                    seen.add(source)
                    stack.append(source)
    return False

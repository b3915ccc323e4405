"""Reverse-mode differentiation, graph to graph: gradients are nodes like any other, so every order of derivative works.

Griewank & Walther, "Evaluating derivatives", 2008, chapter 3. The rules are in `graph.derivatives`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer.engine.graph import primitives as p
from trainer.engine.graph.derivatives import GRADIENTS
from trainer.engine.graph.lines import inherited
from trainer.engine.graph.node import Node, equality_key, reached, topological
from trainer.engine.graph.primitives.compose import add_all


def gradients(output: Node, wrt: Sequence[Node], cotangent: Node) -> list[Node | None]:
    """Returns the cotangents of `wrt`, given that of `output`: None for a node that `output` does not depend on, zeros
    for a node that is used but whose derivative vanishes everywhere (as floor's does).

    Only nodes on a path from one of `wrt` to `output` are differentiated. Equal nodes are merged, except nodes of
    `wrt`. The cotangents of a node are added in the order from its last use to its first.
    """
    return pullback([output], wrt, [cotangent])


def pullback(outputs: Sequence[Node], wrt: Sequence[Node], given: Sequence[Node]) -> list[Node | None]:
    """As `gradients`, for several outputs with the cotangents `given`."""
    targets = set(wrt)
    sources, outputs = _distinct(outputs, targets)
    varying = _varying(sources, targets)
    cotangents: dict[Node, list[Node]] = {}
    for output, cotangent in zip(outputs, given, strict=True):
        cotangents.setdefault(output, []).append(cotangent)
    of_outputs: dict[Node, dict[int, list[Node]]] = {}
    found: dict[Node, Node] = {}
    for node in inherited(list(reversed(sources))):
        if node not in varying:
            continue
        if node in of_outputs:
            _add_parts(cotangents, sources[node], varying, _bundle_gradient(node, of_outputs.pop(node)))
            continue
        parts = cotangents.pop(node, None)
        if parts is None:
            continue  # its users' derivatives are zero everywhere
        total = add_all(parts)
        if node in targets:
            found[node] = total
        if node.operation.family == "output":
            of_outputs.setdefault(sources[node][0], {}).setdefault(node.attributes[0], []).append(total)
            continue
        gradient = GRADIENTS[node.name]
        if gradient is None or not any(source in varying for source in sources[node]):
            continue
        _add_parts(cotangents, sources[node], varying, gradient(node, total))
    used = _reached(outputs, sources, varying) if len(found) < len(targets) else set()
    return [found.get(node) or (p.full(node.shape, 0.0, node.dtype) if node in used else None) for node in wrt]


def _add_parts(
    cotangents: dict[Node, list[Node]], inputs: Sequence[Node], varying: set[Node], parts: Sequence[Node | None]
) -> None:
    for source, part in zip(inputs, parts, strict=True):
        if part is not None and source in varying:
            cotangents.setdefault(source, []).append(part)


def _bundle_gradient(node: Node, parts: Mapping[int, list[Node]]) -> Sequence[Node | None]:
    """Returns the gradient of a bundle, given the cotangents of its outputs; an output without any gets None."""
    gradient = GRADIENTS[node.name]
    assert gradient is not None
    return gradient(node, tuple([add_all(parts[at]) if at in parts else None for at in range(len(p.outputs_of(node)))]))


def _distinct(outputs: Sequence[Node], targets: set[Node]) -> tuple[dict[Node, tuple[Node, ...]], list[Node]]:
    """Merges nodes behind `outputs`, from the oldest of `targets` on; returns their inputs, and the merged outputs."""
    first: dict[Node, Node] = {}
    known: dict[tuple[object, ...], Node] = {}
    sources: dict[Node, tuple[Node, ...]] = {}
    for node in topological(outputs, min((target.sequence for target in targets), default=0)):
        inputs = tuple([first.get(source, source) for source in node.inputs])
        if node in targets:
            first[node] = node
        elif p.is_alias(node):
            first[node] = inputs[0]
        else:
            first[node] = known.setdefault(equality_key(node, inputs), node)
        if first[node] is node:
            sources[node] = inputs
    return sources, [first[output] for output in outputs]


def _varying(sources: Mapping[Node, Sequence[Node]], targets: set[Node]) -> set[Node]:
    """Returns the real and complex nodes that depend on one of `targets` by a path that gradients can pass."""
    varying = {node for node in targets if node.dtype.is_inexact}
    for node, inputs in sources.items():
        if (
            GRADIENTS[node.name] is not None
            and node.dtype.is_inexact
            and node not in varying
            and not varying.isdisjoint(inputs)
        ):
            varying.add(node)
    return varying


def _reached(outputs: Sequence[Node], sources: Mapping[Node, Sequence[Node]], varying: set[Node]) -> set[Node]:
    """Returns `outputs` and the nodes of `varying` that they depend on by a path that gradients can pass."""

    def passed(node: Node) -> list[Node]:
        is_open = GRADIENTS[node.name] is not None
        return [source for source in sources.get(node, ()) if is_open and source in varying]

    return set(reached(outputs, passed))

"""The one layout that a state has for every program: weights and their moments lie as kernels read them."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph.node import Node, reached
from trainer.engine.graph.storage import WEIGHTS, Storage


def settle_layouts(order: Sequence[Node], updates: Sequence[tuple[Storage, Node]]) -> None:
    """Lay out the states of a program that no earlier program is bound to; from here on they stay as they are."""
    states = {
        node: node.attributes[0] for node in order if node.operation.family == "leaf" and node.attributes[0].is_state
    }
    wanted: set[Storage] = set()
    for node in order:
        if node.name in ("convolution", "convolution_input_gradient"):
            weight = node.inputs[1]
            if weight.name == "cast":
                weight = weight.inputs[0]  # rounded to 16 bits
            if weight in states:
                wanted.add(states[weight])
    neighbours = [(storage, _elementwise_sources(node)) for storage, node in updates if len(storage.shape) == 4]
    changed = True
    while changed:
        changed = False
        for storage, sources in neighbours:
            related = {storage} | {states[n] for n in sources if n in states and n.shape == storage.shape}
            gradient = any(n.name == "convolution_weight_gradient" and n.shape == storage.shape for n in sources)
            if (gradient or related & wanted) and not related <= wanted:
                wanted |= related
                changed = True
    for storage in wanted:
        if not storage.settled and storage.layout != WEIGHTS:
            storage.lay_out(WEIGHTS)
    for storage in states.values():
        storage.settled = True
    for storage, _ in updates:
        storage.settled = True


def _elementwise_sources(node: Node) -> set[Node]:
    """The nodes that `node`'s element-wise expression starts from."""
    families = ("elementwise", "marker")
    found = reached([node], lambda each: each.inputs if each.operation.family in families else ())
    return {each for each in found if each.operation.family not in families}

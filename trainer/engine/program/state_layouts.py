"""The layout of a state, the same in every program: weights and their moments are stored in the order in which kernels
read them.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph.node import Node, reached
from trainer.engine.graph.storage import WEIGHTS, Storage


def settle_layouts(order: Sequence[Node], updates: Sequence[tuple[Storage, Node]]) -> None:
    """Chooses the layout of the states that no earlier program is bound to; it does not change afterwards."""
    states = {
        node: node.attributes[0] for node in order if node.operation.family == "leaf" and node.attributes[0].is_state
    }
    weights: set[Storage] = set()
    for node in order:
        if node.name in ("convolution", "convolution_input_gradient"):
            weight = node.inputs[1]
            if weight.name == "cast":
                weight = weight.inputs[0]  # rounded to 16 bits
            if weight in states:
                weights.add(states[weight])
    neighbors = [(storage, _elementwise_sources(node)) for storage, node in updates if len(storage.shape) == 4]
    changed = True
    while changed:
        changed = False
        for storage, sources in neighbors:
            related = {storage} | {states[n] for n in sources if n in states and n.shape == storage.shape}
            gradient = any(n.name == "convolution_weight_gradient" and n.shape == storage.shape for n in sources)
            if (gradient or related & weights) and not related <= weights:
                weights |= related
                changed = True
    for storage in weights:
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

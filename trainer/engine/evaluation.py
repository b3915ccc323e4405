"""Computes the values of nodes on the current device, in pieces if the graph is large."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine import history, targets
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node, uncomputed
from trainer.engine.graph.simplify import uniform_value

PIECE = 4096
"""Number of nodes compiled at once; a longer graph stores the values that its next piece reads."""


def compute(nodes: Sequence[Node]) -> None:
    """Computes the value of each of `nodes`, and drops history that can't be differentiated any more. The caller holds
    `targets.lock`.
    """
    for node in nodes:
        if node.value is None:
            known = p.origin(node).value
            if known is not None and known.block is not None:
                node.value = known.copied() if known.is_state else known
    order = uncomputed(nodes)
    missing = [node for node in dict.fromkeys(nodes) if node.value is None]
    if missing and len(order) <= PIECE:
        _run(missing)
    elif missing:
        _run_in_pieces(missing, uncomputed(missing))
    history.release(order)
    history.sweep(order[-1].sequence if order else 0)


def _run(nodes: Sequence[Node]) -> None:
    for node, storage in zip(nodes, targets.current().evaluate(nodes), strict=True):
        node.value = storage


def _run_in_pieces(needed: Sequence[Node], order: Sequence[Node]) -> None:
    """Computes piece by piece in creation order; frees a value stored for later pieces after the last of these."""
    pieces = [order[start : start + PIECE] for start in range(0, len(order), PIECE)]
    last: dict[Node, int] = {}
    for index, piece in enumerate(pieces):
        last.update((source, index) for node in piece if node.value is None for source in _read_by(node))
    last.update((node, len(pieces)) for node in needed)
    lent: list[Node] = []
    try:
        for index, piece in enumerate(pieces):
            stored = [node for node in piece if last[node] > index and node.value is None and _is_varied(node)]
            if stored:
                _run(stored)
            lent = [*lent, *(node for node in stored if last[node] < len(pieces))]
            for node in lent:
                if last[node] <= index:
                    node.value = None
            lent = [node for node in lent if node.value is not None]
    finally:
        for node in lent:
            node.value = None


def _read_by(node: Node) -> tuple[Node, ...]:
    """The nodes that the computation of `node` reads: a bundle is computed again with each of its outputs."""
    return (*node.inputs, *node.inputs[0].inputs) if node.operation.family == "output" else node.inputs


def _is_varied(node: Node) -> bool:
    """Whether storing the node is possible and useful; each reader recomputes a broadcast number."""
    return not node.is_bundle and uniform_value(node) is None

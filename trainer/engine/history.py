"""What read handles were computed from: reading drops their history, and a gradient must not miss that in silence.

`y = f(x); y.numpy(); gradients(g(y, x), [x])` would leave out the path through y. So each leaf that a read handle is
based on remembers the leaves of its history, as long as these live; `gradients` asks here and refuses.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

from trainer.engine.graph.node import Node, topological

_origins: weakref.WeakKeyDictionary[Node, weakref.WeakSet[Node]] = weakref.WeakKeyDictionary()


def leaves(node: Node) -> weakref.WeakSet[Node]:
    """The floating-point leaves that `node` is computed from, and those of read handles among them."""
    found: weakref.WeakSet[Node] = weakref.WeakSet()
    for leaf in topological([node]):
        if leaf.operation.family == "leaf" and leaf.dtype.is_float:
            found.add(leaf)
            found.update(_origins.get(leaf, ()))
    return found


def remember(leaf: Node, origins: weakref.WeakSet[Node]) -> None:
    """`leaf` stands for a value that was computed from `origins`."""
    if leaf.dtype.is_float and origins:
        _origins[leaf] = origins


def cut_paths(order: Iterable[Node], wrt: Sequence[Node]) -> list[Node]:
    """The leaves among the nodes `order` whose dropped history shares leaves with one of `wrt`."""
    read = [node for node in order if node in _origins]
    if not read:
        return []
    sources = {leaf for node in wrt for leaf in ({node} if node.operation.family == "leaf" else leaves(node))}
    return [leaf for leaf in read if not sources.isdisjoint(_origins[leaf])]

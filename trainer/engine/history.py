"""What a value was computed from: kept as long as it could be differentiated with respect to something.

Reading a value keeps its history, so that `y = f(x); y.numpy(); gradients(g(y, x), [x])` counts both paths. A node with
a value becomes a leaf once no live handle, a state's among them, stands for a floating-point node that it depends on:
no one can ask for that derivative any more.

A value that nobody reads is computed after `UNREAD_LIMIT` nodes, or as many pages that only its history holds.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from trainer.engine.graph import primitives as p
from trainer.engine.graph.derivatives import GRADIENTS
from trainer.engine.graph.node import Node, uncomputed
from trainer.engine.graph.sequence import BYTES_PER_TICK

UNREAD_LIMIT = 4096
"""How many nodes a value that is never read may gather before it is computed; `BYTES_PER_TICK` count as one."""

_kept: weakref.WeakSet[Node] = weakref.WeakSet()
"""Nodes with a value and a history."""

_swept = 0


def release(nodes: Iterable[Node]) -> None:
    """Make leaves of those among `nodes`, and of what they depend on, whose value is known and whose history nobody
    can differentiate any more.
    """
    for node, witness in _witnesses(nodes).items():
        if node.value is not None and node.inputs:
            node.witness = witness
            if witness is None:
                p.become_leaf(node)
                _kept.discard(node)
            else:
                _kept.add(node)


def release_all() -> None:
    """`release` whatever has a history."""
    release(list(_kept))


def sweep(clock: int) -> None:
    """`release_all` if that has not been done for long; `clock` is the sequence of a new node."""
    global _swept
    if clock - _swept > UNREAD_LIMIT:
        _swept = clock
        release_all()


def cost(node: Node) -> tuple[int, int]:
    """What the unread history of `node` takes: its nodes, and memory that no handle holds by `BYTES_PER_TICK`."""
    order = uncomputed([node])
    return len(order), sum(map(_held, order)) // BYTES_PER_TICK


def boundary(node: Node) -> list[Node]:
    """What to compute with `node` so that memory can go: nodes that depend on no live handle, and whose history holds
    more memory than their values will.
    """
    witnesses = _witnesses([node])
    if witnesses[node] is None:
        return []
    found: list[Node] = []
    seen: set[Node] = set()
    for user in sorted(witnesses, key=lambda each: -each.sequence):
        if user.value is None and (_is_named(user) or witnesses[user] is not None):
            for source in user.inputs:
                if source.is_bundle or source.value is not None or not source.inputs:
                    continue
                if witnesses[source] is None and not _is_named(source):
                    fresh = [each for each in uncomputed([source]) if each not in seen]
                    seen.update(fresh)
                    if sum(map(_held, fresh)) > source.size * source.dtype.itemsize:
                        found.append(source)
    return found


def _held(node: Node) -> int:
    """Bytes of a value that would go with the history it is a part of."""
    return 0 if node.value is None or (node.handle is not None and node.handle() is not None) else node.value.nbytes


def _is_named(node: Node) -> bool:
    """Whether someone can ask for a derivative with respect to the node."""
    return node.handle is not None and node.dtype.is_float and node.handle() is not None


def _witnesses(roots: Iterable[Node]) -> dict[Node, Node | None]:
    """For `roots` and what they depend on, a node with a live handle that each can be differentiated with respect to
    other than itself, or None. The walk ends where an earlier one has found one that still lives.
    """
    found: dict[Node, Node | None] = {}
    stack = list(roots)
    while stack:
        node = stack[-1]
        if node in found:
            stack.pop()
        elif node.witness is not None and _is_named(node.witness):
            found[stack.pop()] = node.witness
        elif waiting := [source for source in node.inputs if source not in found]:
            stack.extend(waiting)
        else:
            found[stack.pop()] = _witness(node, found)
    return found


def _witness(node: Node, found: dict[Node, Node | None]) -> Node | None:
    if node.dtype.is_float and GRADIENTS[node.name] is not None:
        for source in node.inputs:
            witness = source if _is_named(source) else found[source]
            if witness is not None:
                return witness
    return None

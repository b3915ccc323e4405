"""Keeps the history of values as long as it can be differentiated with respect to a tensor.

Reading a value keeps its history, so that `y = f(x); y.numpy(); gradients(g(y, x), [x])` counts both paths. A node with
a value becomes a leaf once no live handle (of a tensor or a state) refers to a floating-point node that it depends on:
no derivative through it can be requested any more.

An unread value is computed when its history's nodes plus the memory pages that only it holds exceed `UNREAD_LIMIT`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from trainer.engine.graph import primitives as p
from trainer.engine.graph.derivatives import GRADIENTS
from trainer.engine.graph.node import Node, uncomputed
from trainer.engine.graph.sequence import BYTES_PER_TICK

UNREAD_LIMIT = 4096
"""Maximum history, in nodes, of a value that is never read; `BYTES_PER_TICK` of memory count as one node."""

_kept: list[weakref.ref[Node]] = []
"""Nodes with a value and a history: those that the last `release_all` kept, and those added since."""

_swept = 0


def release(nodes: Iterable[Node]) -> None:
    """Turns each node into a leaf if its value is known and its history can't be differentiated any more."""
    dead: set[Node] = set()
    for node in nodes:
        if node.value is not None and node.inputs and not _is_kept(node):
            witness = _nearest(node, dead)
            if witness is None:
                p.become_leaf(node)
                continue
            if node.witness is None:
                _kept.append(weakref.ref(node))
            node.witness = witness


def release_all() -> None:
    """Calls `release` with all nodes that have a value and a history."""
    release([node for reference in _kept if (node := reference()) is not None])
    _kept[:] = [each for each in _kept if (node := each()) is not None and node.inputs]


def sweep(clock: int) -> None:
    """Calls `release_all` if the last sweep is more than `UNREAD_LIMIT` old; `clock` is the sequence of a new node."""
    global _swept
    if clock - _swept > UNREAD_LIMIT:
        _swept = clock
        release_all()


def cost(node: Node) -> tuple[int, int]:
    """The cost of the unread history of `node`: its nodes, and its memory without live handles in `BYTES_PER_TICK`."""
    order = uncomputed([node])
    return len(order), sum(map(_held, order)) // BYTES_PER_TICK


def boundary(node: Node) -> list[Node]:
    """Nodes to compute with `node`: no live handle is in their history, and they are smaller than their history."""
    order, alive = uncomputed([node]), set[Node]()
    for user in order:
        reached = _passes_gradients(user) and any(_is_named(each) or each in alive for each in user.inputs)
        if reached or _is_kept(user):
            alive.add(user)
    found: list[Node] = []
    visited: set[Node] = set()
    for user in reversed(order if node in alive else []):
        if user.value is None and (_is_named(user) or user in alive):
            for source in user.inputs:
                if source.is_bundle:
                    continue
                if source.value is None and source.inputs and source not in alive and not _is_named(source):
                    fresh = [each for each in uncomputed([source]) if each not in visited]
                    visited.update(fresh)
                    if sum(map(_held, fresh)) > source.size * source.dtype.itemsize:
                        found.append(source)
    return found


def _held(node: Node) -> int:
    """Bytes of the node's value that dropping the history frees: 0 if a live handle holds the value."""
    return 0 if node.value is None or (node.handle is not None and node.handle() is not None) else node.value.nbytes


def _is_named(node: Node) -> bool:
    """Whether a derivative with respect to the node can be requested."""
    return node.handle is not None and node.dtype.is_inexact and node.handle() is not None


def _is_kept(node: Node) -> bool:
    """Whether the witness that was found for the node is still alive."""
    return node.witness is not None and _is_named(node.witness)


def _nearest(node: Node, dead: set[Node]) -> Node | None:
    """Returns a node with a live handle that `node` depends on, or None; then it adds the searched nodes to `dead`."""
    visited: set[Node] = set()
    stack = [node]
    while stack:
        user = stack.pop()
        if user not in dead and user not in visited and _passes_gradients(user):
            visited.add(user)
            for source in user.inputs:
                if _is_named(source):
                    return source
                if _is_kept(source):
                    return source.witness
                stack.append(source)
    dead |= visited
    return None


def _passes_gradients(node: Node) -> bool:
    return node.dtype.is_inexact and GRADIENTS[node.name] is not None

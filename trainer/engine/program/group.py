"""Grouping: which stored nodes one kernel computes together.

Element-wise results over the same space that share operands become one loop with several outputs; reductions of the
same space over the same axes become one pass. Groups are in an order in which the inputs of each exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.node import Node, Shape
from trainer.engine.program.body import Body, Load
from trainer.engine.program.partition import COPIED, MOMENTS, REDUCTIONS, SHARD_SUM, Partition
from trainer.engine.program.views import identity, strides_over
from trainer.engine.program.work import SCANS

LARGEST_INSTRUCTIONS = 200
LARGEST_OPERANDS = 24
OPEN_GROUPS = 12
SMALL = 1024
_CALLED = ("contraction", "window", "index", "bundle")


@dataclass(eq=False, slots=True)
class Group:
    """Stored nodes that one kernel computes: a "loop", a "reduction", or a "call" (one node, or a bundle's outputs)."""

    kind: str
    roots: list[Node]
    body: Body | None
    reads: set[Node]

    @property
    def shape(self) -> Shape:
        return self.body.shape if self.body is not None else self.roots[0].shape


def group(plan: Partition) -> list[Group]:
    """Groups of the plan's roots, in an order that respects their dependencies.

    A root that only its own loop reads is dropped, so that a contraction's kernel can compute the other roots: for a
    16-bit gradient that is used twice, only the sum is stored.
    """
    done: list[Group] = []
    pending: list[Group] = []

    def flush(selected: Sequence[Group]) -> None:
        for item in selected:
            pending.remove(item)
            done.append(item)

    for root in plan.roots:
        if root.operation.family == "output":
            continue  # the group of its bundle contains it
        fresh = _single(root, plan)
        partner = next((item for item in reversed(pending) if _joins(fresh, item, plan)), None)
        flush([item for item in pending if item is not partner and fresh.reads.intersection(item.roots)])
        if partner is not None:
            _extend(partner, fresh)
            continue
        pending.append(fresh)
        if fresh.kind == "call":
            flush([fresh])
        elif len(pending) > OPEN_GROUPS:
            flush(pending[:1])
    flush(list(pending))
    read = plan.results.union(*(item.reads for item in done))
    for item in done:
        if item.kind == "loop":
            item.roots = [root for root in item.roots if root in read]
    return done


def iteration_shape(root: Node) -> Shape:
    """The iteration space of a root's kernel: for a reduction or a merging reshape, the shape of the input."""
    return root.inputs[0].shape if root.name in REDUCTIONS or root.name == "reshape" else root.shape


def _single(root: Node, plan: Partition) -> Group:
    if root.operation.family in _CALLED or root.name in (*COPIED, *SCANS, SHARD_SUM):
        outputs = plan.users[root] if root.is_bundle else ()
        return Group("call", [root, *outputs], None, call_reads(root, plan))
    body = Body(iteration_shape(root), plan.views)
    if root.name in REDUCTIONS:
        body.value(root.inputs[0], identity(body.shape))
        return Group("reduction", [root], body, _bases(body.loads))
    body.root(root)
    return Group("loop", [root], body, _bases(body.loads))


def call_reads(root: Node, plan: Partition) -> set[Node]:
    """The stored nodes and leaves that a call reads."""
    reads: set[Node] = set()
    for source in root.inputs:
        view = plan.views.get(source)
        if view is not None:
            reads.add(view.base)
        else:
            body = Body(source.shape, plan.views)
            body.value(source, identity(body.shape))
            reads |= _bases(body.loads)
    return reads


def _bases(loads: Sequence[Load]) -> set[Node]:
    return {load.base for load in loads if load.base is not None}


def _joins(fresh: Group, item: Group, plan: Partition) -> bool:
    """Whether `fresh` may run in the kernel of `item`: both have the same space and share a large operand."""
    if fresh.kind != item.kind or fresh.kind == "call" or fresh.body is None or item.body is None:
        return False
    if fresh.body.shape != item.body.shape or (fresh.roots[0] in plan.split) != (item.roots[0] in plan.split):
        return False
    if _written(fresh, plan) != _written(item, plan):
        return False
    if len(item.body.instructions) + len(fresh.body.instructions) > LARGEST_INSTRUCTIONS:
        return False
    if len(set(item.body.loads) | set(fresh.body.loads)) + len(item.roots) > LARGEST_OPERANDS:
        return False
    if fresh.kind == "reduction":
        first, second = item.roots[0], fresh.roots[0]
        alike = first.attributes == second.attributes
        if first.name in MOMENTS or second.name in MOMENTS:
            return {first.name, second.name} <= MOMENTS and first.inputs == second.inputs and alike
        is_arg = "arg" in (first.name[:3], second.name[:3])
        return alike and not is_arg and not fresh.reads.intersection(item.roots) and _shares(fresh, item)
    for load in fresh.body.loads:
        if load.base in item.roots and not item.body.holds(load.base, load):
            return False
    if math.prod(fresh.body.shape) <= SMALL and plan.updates.isdisjoint((*fresh.roots, *item.roots)):
        return True  # equal updates of states are merged afterwards, all at once
    return _shares(fresh, item) or bool(fresh.reads.intersection(item.roots))


def _written(item: Group, plan: Partition) -> object:
    """The layout of the first root, which is that of all roots of its group; for a loop, the strides along the axes of
    its space, since a reshape may have merged them.
    """
    root = item.roots[0]
    return strides_over(item.shape, root.shape, plan.layouts[root]) if item.kind == "loop" else plan.layouts[root]


def _shares(fresh: Group, item: Group) -> bool:
    points = math.prod(fresh.shape)
    assert fresh.body is not None and item.body is not None
    shared = [load.base for load in fresh.body.loads if load in item.body.loads]
    return any(base.size * 2 > points for base in shared if base is not None)


def _extend(item: Group, fresh: Group) -> None:
    """Adds `fresh` to the kernel of `item`."""
    assert item.body is not None
    root = fresh.roots[0]
    if item.kind == "reduction":
        item.body.value(root.inputs[0], identity(item.body.shape))
    else:
        item.body.root(root)
    item.roots.append(root)
    item.reads |= fresh.reads - set(item.roots)

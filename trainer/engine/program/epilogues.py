"""Epilogues: element-wise work on a contraction's result that its kernel computes before it stores the result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.storage import Layout
from trainer.engine.program.body import Body, Load, as_epilogue, is_along
from trainer.engine.program.group import Group
from trainer.engine.program.partition import Partition, is_narrower
from trainer.engine.program.spec import Epilogue
from trainer.engine.program.views import is_dense, strides_over
from trainer.engine.program.work import Exchanges, View

_TAKES = {"matmul": -1, "convolution": 1, "convolution_input_gradient": 1}
"""Contractions whose templates have epilogues, and the axis that "channel" operands run along."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A contraction whose kernel computes `root` from its accumulators; `loads` are the epilogue's operands, along the
    contraction's axes.
    """

    contraction: Node
    root: Node
    epilogue: Epilogue
    loads: tuple[Load, ...]


def fuse_epilogues(groups: Sequence[Group], plan: Partition) -> tuple[list[Group], dict[Node, Fused]]:
    """Fuses loops into contractions where they fit; returns the groups, and the fused contractions by their root.

    From a loop with several roots, a contraction takes one root if all others read it only through this root, and if
    this root is narrower.
    """
    readers: dict[Node, list[Group]] = {}
    for item in groups:
        for node in item.reads:
            readers.setdefault(node, []).append(item)
    fused: dict[Node, Fused] = {}
    absorbed: set[Node] = set()
    owner = {item.roots[0]: item for item in groups if item.kind == "call"}
    kept: list[Group] = []
    for item in groups:
        found, left = _taken(item, plan, readers, absorbed)
        if found is not None:
            fused[found.root] = found
            absorbed.add(found.contraction)
            reads = {load.base for load in found.loads if load.base is not None}
            kept.append(Group("call", [found.root], None, reads | owner[found.contraction].reads))
        if left is not None:
            kept.append(left)
    return [item for item in kept if item.roots[0] not in absorbed], fused


def _taken(
    item: Group, plan: Partition, readers: Mapping[Node, list[Group]], absorbed: Set[Node]
) -> tuple[Fused | None, Group | None]:
    """The part of a loop that a contraction fuses, and the rest of the loop."""
    if item.kind != "loop" or item.body is None:
        return None, item
    for source in dict.fromkeys(load.base for load in item.body.loads):
        if source is None or source.name not in _TAKES or source in plan.results or source in absorbed:
            continue
        if readers[source] != [item]:
            continue
        for root, body, rest in _splits(item, item.body, plan):
            is_enough = rest is None or (source not in rest.reads and is_narrower(root, source))
            found = _fit(source, root, body, plan) if is_enough else None
            if found is not None:
                return found, rest
    return None, item


def _splits(item: Group, body: Body, plan: Partition) -> Iterator[tuple[Node, Body, Group | None]]:
    """Yields each root of a loop that needs no other root, its own body, and the loop of the others, which reads it."""
    if len(item.roots) == 1:
        yield item.roots[0], body, None
        return
    for root in item.roots:
        own, rest = (Body(item.shape, plan.views) for _ in range(2))
        own.root(root)
        others = [other for other in item.roots if other is not root]
        for other in others:
            rest.root(other)
        if all(load.base not in others for load in own.loads):
            yield root, own, Group("loop", others, rest, {load.base for load in rest.loads if load.base is not None})


def _fit(contraction: Node, root: Node, body: Body, plan: Partition) -> Fused | None:
    layout, shape, rows = plan.layouts[contraction], body.shape, None
    channel = _TAKES[contraction.name] % contraction.ndim
    if any(source.size == 0 for source in contraction.inputs):
        return None  # no kernel runs: zeros are stored
    if root.shape != contraction.shape or shape != root.shape or plan.layouts[root] != layout:
        rows = _rows(contraction, root, shape, plan)
        if rows is None:
            return None
        layout, channel = rows, rows.order[-1]
    found = as_epilogue(root, body, layout, channel, lambda load, how: load.base is contraction)
    if found is None or not all(is_along(load, layout.strides(shape), shape) for load in found[1]):
        return None
    loads = found[2]
    if rows is not None:
        steps = Layout.row_major(contraction.ndim).strides(contraction.shape)
        along = {"same": steps, "channel": (*(0,) * (contraction.ndim - 1), 1), "scalar": (0,) * contraction.ndim}
        loads = tuple(
            load._replace(strides=along[operand.addressing])
            for load, operand in zip(loads, found[0].operands, strict=True)
        )
    return Fused(contraction, root, found[0], loads)


def _rows(product: Node, root: Node, shape: Shape, plan: Partition) -> Layout | None:
    """The layout of `shape`, the space of `root`, in which the rows of `root` are those of a product, or None."""
    if product.name != "matmul" or not plan.layouts[product].is_row_major or product.size != math.prod(shape):
        return None
    layout = is_dense(shape, strides_over(shape, root.shape, plan.layouts[root]))
    return layout if layout is not None and shape[layout.order[-1]] == product.shape[-1] else None


def narrowed(groups: Sequence[Group], plan: Partition) -> set[Node]:
    """The casts to a narrower dtype that are the only users of contractions; stored in place of the contractions' sums,
    they take half the memory traffic.
    """
    calls = [item.roots[0] for item in groups if item.kind == "call"]
    found = set[Node]()
    for node in calls:
        users = plan.users[node]
        if node.name in _TAKES and node not in plan.results and len(users) == 1 and users[0].name == "cast":
            found.update(user for user in users if is_narrower(user, node))
    return found


def exchanges(operands: Sequence[View], others: Sequence[View], epilogue: Epilogue, write: View) -> Exchanges:
    """(output, input) pairs: only the epilogue reads the input, which has the output's size and layout."""
    target, found = write.buffer, []
    for operand, view in zip(epilogue.operands, others, strict=True):
        source = view.buffer
        assert target is not None and source is not None
        once = sum(other.buffer is source for other in (*operands, *others)) == 1
        alike = (source.size, source.dtype.itemsize) == (target.size, target.dtype.itemsize)
        if operand.addressing == "same" and alike and not view.offset and once and target.in_arena and source.in_arena:
            found.append((target, source))
    return tuple(found)

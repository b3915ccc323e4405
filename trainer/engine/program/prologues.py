"""Prologues: element-wise work on a convolution's input that its kernels compute while they copy a window of it.

A prologue's result takes no memory and no pass over memory: for a batch norm with ReLU, the forward pass and the weight
gradient read the stored output of the previous convolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.node import Node, reached
from trainer.engine.graph.storage import CHANNELS_LAST
from trainer.engine.program.body import Body, Load, as_epilogue
from trainer.engine.program.spec import Epilogue
from trainer.engine.program.views import NodeView

_CHANNEL = 1


@dataclass(frozen=True, slots=True)
class Applied:
    """`prologue` computes a convolution's input from the array `source`; `loads` are its other operands."""

    prologue: Epilogue
    source: Load
    loads: tuple[Load, ...]


def may_take_prologue(user: Node) -> bool:
    """Whether the kernel of `user` may compute its first operand."""
    if user.name not in ("convolution", "convolution_weight_gradient"):
        return False
    return bool(user.size) and all(source.size for source in user.inputs)  # else zeros are stored, and no kernel runs


def applied_to(node: Node, views: Mapping[Node, NodeView]) -> Applied | None:
    """`node` as a prologue over one channels-last array of its shape, or None.

    All its other operands have one element per channel, or one element.
    """
    if node.dtype != float32 or node.ndim != 4:
        return None
    body = Body(node.shape, dict(views))
    found = as_epilogue(node, body, CHANNELS_LAST, _CHANNEL, lambda load, how: how == "same")
    if found is None or len(found[1]) != 1:
        return None
    prologue, (source,), loads = found
    assert source.base is not None
    return Applied(prologue, source, loads) if source.base.dtype == float32 else None


def is_all_that_is_read(node: Node, views: Mapping[Node, NodeView], users: Mapping[Node, Sequence[Node]]) -> bool:
    """Whether only `node` is computed from a contraction's result: an epilogue can then store `node` at no cost."""
    inside = reached([node], lambda each: [source for source in each.inputs if source not in views]).keys()
    bases = {views[source].base for each in inside for source in each.inputs if source in views}
    return any(base.operation.family == "contraction" and not _escapes(base, node, inside, users) for base in bases)


def _escapes(base: Node, node: Node, inside: Set[Node], users: Mapping[Node, Sequence[Node]]) -> bool:
    """Whether anything other than `node` reads `base` or an intermediate value on the way to `node`."""
    way = reached([base], lambda each: [user for user in users[each] if user is not node and user in inside])
    return any(user not in inside for each in way for user in users[each])

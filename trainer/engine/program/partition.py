"""Decides which nodes are stored, and in which layout; all others are computed inside their users' kernels.

One forward walk decides node by node, from the inputs and the users: contractions, reductions and similar nodes are
always stored; element-wise work is recomputed in each user while that is cheaper than storing and reloading it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import CHANNELS_LAST, TOKENS, WEIGHTS, Layout, Storage
from trainer.engine.program.prologues import applied_to, is_all_that_is_read, may_take_prologue
from trainer.engine.program.views import NodeView, identity, is_dense, through, view_through
from trainer.engine.program.work import SCANS, SCATTERS

INLINE = frozenset({"leaf", "source", "elementwise", "marker"})
AFFINE = frozenset({"reshape", "permute", "expand", "slice", "flip", "windows"})
WINDOWS = ("window_argmax", "window_max", "window_max_gradient", "resample")
ATTENTIONS = ("attention", "attention_gradient")
COPIED = frozenset({"pad", "concatenate"})
MOMENTS = frozenset({"reduce_mean", "reduce_deviations"})
REDUCTIONS = frozenset({"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"}) | MOMENTS
CONVOLUTIONS = frozenset({"convolution", "convolution_input_gradient", "convolution_weight_gradient"})
SHARD_SUM = "shard_sum"
_READERS = frozenset({*SCANS, "random_bits", SHARD_SUM})
"""Primitives of other families whose inputs are stored."""

COSTLY = frozenset({"exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "logistic", "power", "random_bits"})


@dataclass(frozen=True, slots=True)
class Policy:
    """The conditions under which each user recomputes shared element-wise work instead of storing it once.

    Without `recompute`, every node with more than one user is stored. Without `channels_last`, element-wise work stays
    in row-major order between convolutions, which are always channels-last. The bits are the same; only time and memory
    differ. With `prologues`, convolutions compute their input where they can.
    """

    recompute: bool = True
    shared_loads: int = 2
    shared_operations: int = 12
    largest_loads: int = 14
    largest_operations: int = 120
    channels_last: bool = True
    prologues: bool = True


@dataclass(slots=True)
class Cost:
    """The cost of computing a node inside a kernel: arrays read, operations, and whether one of them is expensive."""

    loads: frozenset[Node]
    operations: int
    costly: bool


@dataclass(slots=True)
class Partition:
    """The decisions. `roots`: nodes that an item of work computes, bundles before their outputs. `views`: an entry for
    each node that can be read from memory without computing. `results`: the stored nodes that hold the results.
    `updates`: the new values of states. `split`: nodes that depend on the shard.
    """

    order: list[Node]
    roots: list[Node] = field(default_factory=list)
    layouts: dict[Node, Layout] = field(default_factory=dict)
    views: dict[Node, NodeView] = field(default_factory=dict)
    users: dict[Node, list[Node]] = field(default_factory=dict)
    results: frozenset[Node] = frozenset()
    updates: frozenset[Node] = frozenset()
    split: frozenset[Node] = frozenset()


def partition(
    order: Sequence[Node],
    results: Sequence[Node],
    policy: Policy,
    given: Mapping[Node, Layout] | None = None,
    takes_prologue: Callable[[Node], bool] = lambda node: False,
    further: Set[Node] = frozenset(),
) -> Partition:
    """Partitions the graph in `order`, whose `results` must be in memory, some of them in `given` layouts.

    `takes_prologue` returns whether the target's kernel of a convolution or weight gradient computes its first operand.
    `further` nodes are stored too.
    """
    given = given or {}
    plan = Partition(list(order), updates=frozenset(given))
    users = plan.users = {node: [] for node in order}
    for node in order:
        for source in dict.fromkeys(node.inputs):
            users[source].append(node)
    stored, offered = _stored_first(order, results, takes_prologue if policy.prologues else lambda node: False)
    stored |= further
    costs: dict[Node, Cost] = {}
    for node in order:
        view = _existing_view(node, plan, node in stored and _reads_dense(node, users))
        if view is not None:
            plan.views[node] = view
            costs[node] = Cost(frozenset((view.base,)), 0, False)
            continue
        cost = _cost(node, costs)
        if node.is_bundle:
            plan.roots.append(node)
            costs[node] = Cost(frozenset(), 0, False)
            continue
        if node in offered and not _is_prologue(node, cost, plan, policy):
            stored.add(node)
        if _stored(node, stored, users, cost, policy):
            plan.roots.append(node)
            layout = given.get(node) if _any_layout(node) else None
            layout = layout or _layout(node, users, cost, plan, policy)
            plan.layouts[node] = layout
            plan.views[node] = NodeView.dense(node, layout)
            costs[node] = Cost(frozenset((node,)), 0, False)
        else:
            costs[node] = cost
    plan.results = frozenset(plan.views[node].base for node in results)
    return plan


def _stored_first(
    order: Sequence[Node], results: Sequence[Node], takes_prologue: Callable[[Node], bool]
) -> tuple[set[Node], set[Node]]:
    """Results and operands of kernels other than loops; and operands that may become prologues instead."""
    stored, offered = set(results), set[Node]()
    for node in order:
        if node.name in ATTENTIONS:
            stored.update((*_wholes(node.inputs[:3]), *node.inputs[3:]))
        elif node.operation.family in ("contraction", "window", "index", "bundle") or node.name in _READERS:
            first = 1 if may_take_prologue(node) and takes_prologue(node) else 0
            offered.update(node.inputs[:first])
            stored.update(_unmoved(source) if node.name == "matmul" else source for source in node.inputs[first:])
    return stored, offered - stored


def _is_prologue(node: Node, cost: Cost, plan: Partition, policy: Policy) -> bool:
    """Whether convolutions compute `node` while they copy its operands."""
    if node.operation.family != "elementwise" or cost.costly or cost.operations > policy.shared_operations:
        return False
    return not is_all_that_is_read(node, plan.views, plan.users) and applied_to(node, plan.views) is not None


def _unmoved(node: Node) -> Node:
    """The node that a product reads in place of a transposed `node`: its source (2 ms instead of 53 ms in one case)."""
    while node.name == "permute":
        node = node.inputs[0]
    return node


def _wholes(operands: Sequence[Node]) -> list[Node]:
    """The nodes to store for operands that are read with their strides: the array that they are parts of, if it is
    computed element by element (query, key and value of one product with a bias); else each of them.
    """
    wholes: dict[Node, Node] = {}
    for node in operands:
        whole = node
        while whole.name in ("reshape", "permute", "slice"):
            whole = whole.inputs[0]
        wholes[node] = whole if _computes(whole) else node
    sizes = {whole: sum(node.size for node in wholes if wholes[node] is whole) for whole in wholes.values()}
    return [whole if sizes[whole] >= whole.size else node for node, whole in wholes.items()]


def _reads_dense(node: Node, users: dict[Node, list[Node]]) -> bool:
    """Whether a user of `node` requires a dense array instead of a strided view."""
    return any(user.name in CONVOLUTIONS or user.operation.family == "window" for user in users[node])


def _existing_view(node: Node, plan: Partition, dense: bool) -> NodeView | None:
    """The view of `node` in existing memory, if it is a leaf or an affine movement of a node with a view."""
    if node.operation.family == "leaf":
        storage: Storage = node.attributes[0]
        plan.layouts[node] = storage.layout
        return NodeView.dense(node, storage.layout)
    if node.name not in AFFINE or node.inputs[0] not in plan.views:
        return None
    view = view_through(node, plan.views[node.inputs[0]])
    if view is None or (dense and (view.offset or is_dense(node.shape, view.strides) is None)):
        return None
    return view


def _cost(node: Node, costs: dict[Node, Cost]) -> Cost:
    known = [costs[source] for source in dict.fromkeys(node.inputs)]
    loads = frozenset[Node]().union(*(cost.loads for cost in known))
    operations, costly = sum(cost.operations for cost in known), any(cost.costly for cost in known)
    if _computes(node):
        operations += 40 if node.name in COSTLY else 1
        costly |= node.name in COSTLY
    return Cost(loads, operations, costly)


def _stored(node: Node, stored: set[Node], users: dict[Node, list[Node]], cost: Cost, policy: Policy) -> bool:
    if node.operation.family not in INLINE and node.name not in AFFINE:
        return True
    if node in stored or node.name == "barrier" or any(user.name in ATTENTIONS for user in users[node]):
        return True
    if node.name == "reshape" and through(node, identity(node.shape), node.ndim) is None:
        return True
    if len(cost.loads) > policy.largest_loads or cost.operations > policy.largest_operations:
        return True
    if not cost.operations:
        return False
    if _grows(node, users):
        return True
    if len(_readers(node, users)) < 2 or not _computes(node):
        return False
    if not policy.recompute:
        return True
    large = sum(load.size * 2 > node.size for load in cost.loads)
    return cost.costly or large > policy.shared_loads or cost.operations > policy.shared_operations


def _computes(node: Node) -> bool:
    return node.operation.family == "elementwise" or node.name == "random_bits"


def is_narrower(node: Node, other: Node) -> bool:
    return node.dtype.is_float and other.dtype.is_float and node.dtype.itemsize < other.dtype.itemsize


def _readers(node: Node, users: dict[Node, list[Node]]) -> dict[Node, None]:
    """The users that compute with `node`; each of them repeats a widening cast, so that the narrow value is stored."""
    readers: dict[Node, None] = {}
    for user in users[node]:
        widens = user.name == "cast" and is_narrower(node, user)
        readers.update(dict.fromkeys(users[user] if widens else (user,)))
    return readers


def _grows(node: Node, users: dict[Node, list[Node]]) -> bool:
    """Whether a broadcast repeats `node`, so that its work would be repeated for every copy."""
    for user in users[node]:
        if user.name in ("expand", "windows") and user.size > node.size:
            return True
        if user.name in AFFINE and _grows(user, users):
            return True
    return False


def _layout(node: Node, users: dict[Node, list[Node]], cost: Cost, plan: Partition, policy: Policy) -> Layout:
    """The layout of a stored node: the one that its kernel writes fastest, else the one that its users read fastest."""
    default = Layout.row_major(node.ndim)
    if node.name == "reshape" and not _is_line(node):
        return _merged_layout(node, cost, plan) or default
    if node.name == "convolution_weight_gradient":
        return WEIGHTS
    if node.name == SHARD_SUM:
        return is_dense(node.shape, plan.views[node.inputs[0]].strides) or default
    if node.name == "output" and node.ndim == 4 and node.inputs[0].name in ATTENTIONS and node.attributes[0] < 3:
        return TOKENS
    if node.name in ("convolution", "convolution_input_gradient", *WINDOWS):
        return CHANNELS_LAST
    if node.name in ("take_along", *SCATTERS) or (
        node.name in ("gather", "scatter_add") and node.ndim == node.inputs[0].ndim
    ):
        return is_dense(node.inputs[0].shape, plan.views[node.inputs[0]].strides) or default
    if not policy.channels_last or node.operation.family in ("contraction", "reduction", "index", "output"):
        return default
    if any(_wants_channels_last(user, node) for user in users[node]):
        return CHANNELS_LAST
    turned = _turned(node, users) if node.name in COPIED else None
    if turned is not None:
        return turned
    loads = sorted(cost.loads, key=lambda load: (-load.size, load.sequence))
    alike = {source.shape for source in node.inputs} if node.name in COPIED else {node.shape}
    for load in loads:
        if load.shape in alike and not plan.layouts[load].is_row_major:
            return plan.layouts[load]
    return _LINES if node.ndim == 3 and _is_channels_last(node, users, loads, plan) else default


def _turned(node: Node, users: dict[Node, list[Node]]) -> Layout | None:
    """The layout in which the only user, a permutation, is row-major, if its reshape would otherwise be a copy."""
    if len(users[node]) != 1 or users[node][0].name != "permute":
        return None
    user = users[node][0]
    view = view_through(user, NodeView.dense(node, Layout.row_major(node.ndim)))
    if view is None or not any(each.name == "reshape" and view_through(each, view) is None for each in users[user]):
        return None
    return Layout(user.attributes[0])


_LINES = Layout((0, 2, 1))
"""Channels-last with one spatial axis: [N, T, C] in memory for the logical [N, C, T]."""


def _is_line(reshape: Node) -> bool:
    """Whether a reshape turns an array [N, C, T] into an image of one row, or an image of one row into an array."""
    flat, picture = sorted((reshape.inputs[0], reshape), key=lambda node: node.ndim)
    return flat.ndim == 3 and picture.shape == (*flat.shape[:2], 1, flat.shape[2])


def _is_channels_last(line: Node, users: dict[Node, list[Node]], loads: Sequence[Node], plan: Partition) -> bool:
    """Whether a convolution of one spatial axis reads `line`, or `line` is computed from a channels-last array of one
    spatial axis. The extents of the two may differ along one axis: one may be a part of the other.
    """
    for user in users[line]:
        if user.name == "reshape" and _is_line(user) and any(_wants_channels_last(each, user) for each in users[user]):
            return True
    for load in loads:
        shape, layout = load.shape, plan.layouts[load]
        if load.ndim == 4 and shape[2] == 1 and layout == CHANNELS_LAST:
            shape, layout = (*shape[:2], shape[3]), _LINES
        if layout == _LINES and sum(a != b for a, b in zip(shape, line.shape, strict=True)) <= 1:
            return True
    return False


def _merged_layout(node: Node, cost: Cost, plan: Partition) -> Layout | None:
    """Channels-last, as [N, pixels, C], if `node` merges the pixels of channels-last images to [N, C, pixels]."""
    source = node.inputs[0]
    if source.ndim != 4 or node.shape != (*source.shape[:2], source.shape[2] * source.shape[3]):
        return None
    lead = max(cost.loads, key=lambda load: (load.size, -load.sequence), default=None)
    if lead is None or lead.shape != source.shape or plan.layouts[lead] != CHANNELS_LAST:
        return None
    return Layout((0, 2, 1))


def _any_layout(node: Node) -> bool:
    """Whether a loop computes `node`; a loop can write any layout."""
    return _computes(node) or node.operation.family in ("source", "marker") or node.name in AFFINE - {"reshape"}


def _wants_channels_last(user: Node, node: Node) -> bool:
    if user.name == "convolution_weight_gradient":
        return True
    if user.name in ("convolution", "convolution_input_gradient"):
        return user.inputs[0] is node
    return user.name in WINDOWS

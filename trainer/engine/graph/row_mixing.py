"""Finds the axis of the batch's rows in each value of a graph, and operations that mix rows.

In a step with shards, the values of each row must depend on that row alone, except for sums over the rows: the loss of
the whole batch is then the mean of the shards' losses. Operations that mix rows in another way have different results
in a shard and in the whole batch. `shard_sum` makes them valid, since all shards get the same sum, as in a batch norm.

Each value is one of these:

- `None`: it depends on no row.
- `Rows`: one of its axes holds the rows.
- `Total`: a sum over the rows times values without rows, plus values without rows, e.g. a mean loss.
- `Mixed`: anything else, with the operation that made it.

Values computed from the batch alone, without learned values, are exempt: an augmentation may mix the images of a shard,
and a loss may be divided by the number of its targets. Random numbers have no rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.engine.graph.errors import ArgumentError, describe, user_line
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.storage import Storage


@dataclass(frozen=True, slots=True)
class Rows:
    """`count` rows along `axis`, in any number of blocks: index (block · count + row) · `inner` + place."""

    axis: int
    count: int
    inner: int = 1

    def at(self, axis: int) -> Rows:
        """The same rows along another axis."""
        return Rows(axis, self.count, self.inner)


@dataclass(frozen=True, slots=True)
class Total:
    """A linear function of sums over the rows."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """A value that depends on rows mixed by `node`; `why` is the reason."""

    node: Node
    why: str


State = Rows | Total | Mixed | None
States = tuple[State, ...]


class _Mixing(Exception):
    """The operation mixes rows; the argument says how."""


def check_rows(outputs: Sequence[Node], arguments: Collection[Storage], states: Collection[Storage]) -> None:
    """Raises if `outputs` mix rows of the `arguments`, which are along the first axis of each.

    states: the states that the step reads; those with floating-point dtypes are learned.

    Raises:
        TrainerError: names the operation and the user's line.
    """
    rows: dict[Node, State | States] = {}
    learned: set[Node] = set()
    for node in topological(outputs):
        if node.operation.family == "leaf":
            storage = node.attributes[0]
            if storage in arguments and node.shape:
                rows[node] = Rows(0, node.shape[0])
            elif storage in states and node.dtype.is_inexact:
                learned.add(node)
    _walk(outputs, rows, learned)
    for output in outputs:
        found = rows[output]
        if isinstance(found, Mixed):
            node = found.node
            raise ArgumentError(
                f"{node.name} mixes rows of the batch: {found.why}", where=node.line or user_line(),
                found=describe(node.inputs), expected="with train.shards, values of each row from that row alone",
                hint="Sum over all shards first (engine.shard_sum), or set train.shards to 1.",
            )  # fmt: skip


def _walk(outputs: Sequence[Node], states: dict[Node, State | States], learned: set[Node]) -> None:
    """Adds to `states` the state of each node behind `outputs`, and to `learned` the nodes that depend on it."""
    for node in topological(outputs):
        if node in states:
            continue
        if not learned.isdisjoint(node.inputs):
            learned.add(node)
        given: list[Any] = [states[source] for source in node.inputs]
        states[node] = _after(node, given, is_learned=node in learned)


def _after(node: Node, given: Sequence[Any], *, is_learned: bool) -> State | States:
    if node.name == "shard_sum":
        return None
    if node.name == "output":
        bundle = given[0]
        return bundle[node.attributes[0]] if isinstance(bundle, tuple) else bundle
    if node.name in _FIRST:
        return given[0]
    mixed = next((state for state in given if isinstance(state, Mixed)), None)
    if mixed is not None or not any(given):
        return mixed
    try:
        if not any(isinstance(state, Rows) for state in given):
            found: State | States = _of_totals(node, given)
        elif Total() in given:
            raise _Mixing("a sum over rows meets rows")
        else:
            rule = _RULES.get(node.name) or _FAMILIES.get(node.operation.family)
            if rule is None:
                raise _Mixing("it may combine rows in any way")
            found = rule(node, given)
    except _Mixing as mixing:
        return Mixed(node, str(mixing)) if is_learned else _of_batch(node, given)
    return None if isinstance(found, Total) and not is_learned else found


def _of_batch(node: Node, given: Sequence[State]) -> State:
    """State of a value from the batch alone that mixes rows: the input's rows if the extent of their axis is kept."""
    place, rows = next((place, state) for place, state in enumerate(given) if isinstance(state, Rows))
    shape = node.inputs[place].shape
    is_kept = node.shape[rows.axis : rows.axis + 1] == shape[rows.axis : rows.axis + 1]
    return rows if is_kept and not node.is_bundle else None


def _of_totals(node: Node, given: Sequence[State]) -> State:
    """State of an operation on sums over rows: `Total` if it is linear in them; else the operation mixes rows."""
    totals = [state is not None for state in given]
    is_linear = (
        node.operation.family == "movement"
        or (node.name in _LINEAR and node.dtype.is_inexact)
        or (node.name in _BILINEAR and sum(totals) == 1)
        or (node.name in _LINEAR_IN_FIRST and not any(totals[1:]))
        or (node.name == "where" and not totals[0])
    )
    if not is_linear:
        raise _Mixing("the result is not linear in a sum over rows")
    return Total()


_FIRST = frozenset({"barrier", "stop_gradient", "anchor", "with_gradient"})
_LINEAR = frozenset(
    {"add", "subtract", "negative", "cast", "real", "imag", "complex", "reduce_sum", "reduce_mean", "cumulative_sum",
     "resample"}
)  # fmt: skip
_BILINEAR = frozenset(
    {"multiply", "matmul", "convolution", "convolution_input_gradient", "convolution_weight_gradient"}
)
_LINEAR_IN_FIRST = frozenset({"divide", "gather", "take_along", "scatter_add", "scatter_add_along", "gather_sum"})
_SUMS = frozenset({"reduce_sum", "reduce_mean"})


# --- rules: (node, states of its inputs, at least one with rows) -> its state -----------------------------------------


def _same(node: Node, given: Sequence[State]) -> Rows:
    """The rows of all inputs that have rows, which must agree. Shards of one row can't mix rows."""
    found = [state for state in given if isinstance(state, Rows)]
    if any(state != found[0] and max(state.count, found[0].count) > 1 for state in found):
        raise _Mixing("rows along one axis meet rows along another")
    return found[0]


def _elsewhere(rows: Rows, axes: Collection[int], what: str) -> Rows:
    if rows.axis in axes:
        raise _Mixing(what)
    return rows


def _reshape(node: Node, given: Sequence[Any]) -> State:
    (rows,), (x,) = given, node.inputs
    stride = rows.inner * math.prod(x.shape[rows.axis + 1 :])
    for axis, extent in enumerate(node.shape):
        after = math.prod(node.shape[axis + 1 :])
        if not node.size or (stride % after == 0 and after * extent % (stride * rows.count) == 0):
            return Rows(axis, rows.count, stride // max(1, after))
    if rows.count == 1:
        return Total()
    raise _Mixing("rows are split among several axes")


def _slice(node: Node, given: Sequence[Any]) -> State:
    (rows,), axis = given, given[0].axis
    start, stop, step = (node.attribute(name)[axis] for name in ("start", "stop", "step"))
    block = rows.count * rows.inner
    if (start % block or stop % block or step != 1) and node.shape != node.inputs[0].shape:
        raise _Mixing("some rows are selected")
    return given[0]


def _pad(node: Node, given: Sequence[Any]) -> State:
    axis = given[0].axis
    if any(node.attribute(name)[axis] for name in ("low", "high", "interior")):
        raise _Mixing("rows are added")
    return given[0]


def _windows(node: Node, given: Sequence[Any]) -> State:
    axis = node.attribute("axis")
    rows = _elsewhere(given[0], [axis], "windows lie across rows")
    return rows.at(rows.axis + (rows.axis > axis))


def _concatenate(node: Node, given: Sequence[State]) -> State:
    rows, axis = _same(node, given), node.attribute("axis")
    extents = [x.shape[axis] for x, state in zip(node.inputs, given, strict=True) if state is None]
    if axis == rows.axis and any(extent % (rows.count * rows.inner) for extent in extents):
        raise _Mixing("rows are added")
    return rows


def _reduce(node: Node, given: Sequence[Any]) -> State:
    (rows,), axes = given, node.attributes[0]
    axes = (axes,) if isinstance(axes, int) else axes
    if rows.axis in axes:
        if node.name not in _SUMS:
            raise _Mixing("it reduces over the rows, and is no sum")
        return Total()
    return rows.at(rows.axis - sum(axis < rows.axis for axis in axes))


def _along(node: Node, given: Sequence[State]) -> State:
    """The rule of operations that combine elements along an `axis`."""
    return _elsewhere(_same(node, given), [node.attribute("axis")], "it goes along the rows")


def _matmul(node: Node, given: Sequence[Any]) -> State:
    (a, b), last = given, node.ndim - 1
    are_summed = [a is not None and a.axis == last, b is not None and b.axis == last - 1]
    if a is None or b is None:
        return Total() if any(are_summed) else a or b
    if all(are_summed) and (a.count, a.inner) == (b.count, b.inner):
        return Total()
    if max(a.axis, b.axis) >= last - 1:
        raise _Mixing("rows are multiplied by rows")
    return _same(node, given)


def _convolution(node: Node, given: Sequence[Any]) -> State:
    rows, weights = given
    if rows is None or rows.axis or weights is not None:
        raise _Mixing("rows are not the first axis of the input alone")
    return rows


def _weight_gradient(node: Node, given: Sequence[Any]) -> State:
    if any(rows is not None and rows.axis for rows in given):
        raise _Mixing("rows are not the first axis")
    return Total()


def _planes(node: Node, given: Sequence[State]) -> State:
    return _elsewhere(_same(node, given), (2, 3), "windows lie across rows")


def _gather(node: Node, given: Sequence[Any]) -> State:
    (rows, places), axis = given, node.attribute("axis")
    if rows is None:
        return places.at(axis + places.axis)
    if places is not None or rows.axis == axis:
        raise _Mixing("rows are selected")
    return rows.at(rows.axis + (rows.axis > axis) * (node.inputs[1].ndim - 1))


def _scatter_add(node: Node, given: Sequence[Any]) -> State:
    (rows, places), axis, count = given, node.attribute("axis"), node.inputs[1].ndim
    if rows is None or axis <= rows.axis < axis + count:
        return Total()
    if places is not None:
        raise _Mixing("rows meet rows")
    return rows.at(rows.axis - (rows.axis > axis) * (count - 1))


def _scatter_add_along(node: Node, given: Sequence[State]) -> State:
    rows = _same(node, given)
    return Total() if rows.axis == node.attribute("axis") else rows


def _gather_sum(node: Node, given: Sequence[Any]) -> State:
    rows = _same(node, given)
    if rows.axis > 1 or (given[0] is not None and rows.axis):
        raise _Mixing("rows are selected")
    return rows


def _suppress(node: Node, given: Sequence[Any]) -> State:
    return _elsewhere(given[0], (node.ndim - 1, node.ndim), "rows suppress rows")


def _attention(node: Node, given: Sequence[Any]) -> States:
    rows = _elsewhere(_same(node, given), (1, 2, 3), "rows are not the first axis")
    return (rows,) * len(node.operation.outputs(node.inputs, node.attributes))  # type: ignore[misc]


def _recurrent(node: Node, given: Sequence[Any]) -> States:
    is_ragged = node.name == "rnn_scan_ragged"
    before = 2 * is_ragged  # w_ih and bias
    weights = {*range(1, before + 2), before + {"gru": 3, "lstm": 4}.get(node.attribute("cell"), 1)}
    weights -= {len(given) - 1} if is_ragged else set()  # lengths
    for place, (x, rows) in enumerate(zip(node.inputs, given, strict=True)):
        if rows is not None and (place in weights or rows.axis != (1 if x.ndim == 3 else 0)):
            raise _Mixing("rows are not the axis of the batch")
    rows = next(rows for rows in given if rows is not None)
    outputs = node.operation.outputs(node.inputs, node.attributes)  # type: ignore[misc]
    return tuple([rows.at(1 if len(shape) == 3 else 0) for shape, _ in outputs])


def _scan(node: Node, given: Sequence[Any]) -> States:
    step = node.attributes[0]
    constants, carried, inputs = step.split(given)
    if any(isinstance(rows, Rows) and rows.axis == 0 for rows in inputs):
        raise _Mixing("each step has other rows")
    slices = [rows.at(rows.axis - 1) if isinstance(rows, Rows) else rows for rows in inputs]
    while True:  # each round, more carried values have rows
        states = dict(zip(step.parameters, [*constants, *carried, *slices], strict=True))
        _walk(step.computed, states, set(topological(step.computed)))
        found: list[Any] = [states[value] for value in step.computed]
        mixed = next((state for state in found if isinstance(state, Mixed)), None)
        if mixed is not None:
            return (mixed,) * len(found)
        after = [new if old is None else old for old, new in zip(carried, found, strict=False)]
        if any(new not in (None, old) for old, new in zip(after, found, strict=False)):
            raise _Mixing("what is carried along has rows along another axis after a step")
        if after == carried:
            break
        carried = after
    stacked = [rows.at(rows.axis + 1) if isinstance(rows, Rows) else rows for rows in found[len(carried) :]]
    return (*carried, *stacked)


_RULES: Mapping[str, Callable[[Node, Sequence[Any]], State | States]] = {
    "reshape": _reshape,
    "permute": lambda node, given: given[0].at(node.attributes[0].index(given[0].axis)),
    "expand": _same,
    "pad": _pad,
    "slice": _slice,
    "windows": _windows,
    "flip": lambda node, given: _elsewhere(given[0], node.attributes[0], "rows change places"),
    "concatenate": _concatenate,
    "cumulative_sum": _along,
    "cumulative_prod": _along,
    "matmul": _matmul,
    "convolution": _convolution,
    "convolution_input_gradient": _convolution,
    "convolution_weight_gradient": _weight_gradient,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "take_along": _along,
    "scatter_add_along": _scatter_add_along,
    "scatter_prod_along": _along,
    "scatter_max_along": _along,
    "scatter_min_along": _along,
    "gather_sum": _gather_sum,
    "argsort": _along,
    "sort": _along,
    "top_k": _along,
    "suppress": _suppress,
    "attention": _attention,
    "attention_gradient": _attention,
    "rnn_scan": _recurrent,
    "rnn_scan_ragged": _recurrent,
    "scan": _scan,
}
_FAMILIES: Mapping[str, Callable[[Node, Sequence[Any]], State | States]] = {
    "elementwise": _same,
    "reduction": _reduce,
    "window": _planes,
}

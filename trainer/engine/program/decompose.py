"""Decomposes attention and recurrent scans into primitives and scans of steps, for targets without kernels for them.

The formulas are those of `primitives.attention` and `primitives.recurrent`; here the matrix of scores is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType, bool_, float32, int32
from trainer.engine.graph.node import Node, Shape
from trainer.engine.graph.primitives.attention import GROUP, UNLIMITED, options_of, sums_of
from trainer.engine.graph.primitives.compose import broadcast, scale, spread, transpose_last
from trainer.engine.graph.primitives.recurrent import CELLS
from trainer.engine.graph.primitives.scan import placeholder, scan
from trainer.engine.graph.rewrite import on, rebuilt

Parts = tuple[Node, ...]


def decomposed(outputs: Sequence[Node]) -> list[Node]:
    """The graph with bundles of attention and of recurrent scans decomposed."""
    known: dict[Node, Parts] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.name != "output" or inputs[0].name not in _RULES:
            return on(node, inputs)
        (bundle,) = inputs
        if bundle not in known:
            known[bundle] = _RULES[bundle.name](bundle.inputs, bundle.attributes)
        return known[bundle][node.attributes[0]]

    return rebuilt(outputs, rule)


# --- attention: heads [B, H] as [B, G, R], R query heads for each of G key heads -------------------------------------


class _Scores:
    """The scores of each query and key, and query, key and value in the shapes of their products."""

    def __init__(self, name: str, inputs: Sequence[Node], attributes: tuple[Any, ...]) -> None:
        self.scale, self.window, self.dropout, _ = attributes
        self.precision = inputs[0].dtype if inputs[0].dtype.is_half else None
        query, key, value = (self.wide(each) for each in inputs[:3])
        self.batch, heads, rows, self.depth = query.shape
        self.heads, groups, count = heads, key.shape[1], key.shape[2]
        self.group_shape = (self.batch, groups, heads // groups)
        self.shape: Shape = (*self.group_shape, rows, count)
        self.full: Shape = (self.batch, heads, rows, count)
        self.options = options_of(name, inputs, attributes)
        self.query, self.key, self.value = self.grouped(query), self.repeated(key), self.repeated(value)

    def wide(self, x: Node) -> Node:
        """`x` in the dtype of sums."""
        return p.cast(x, sums_of(x.dtype))

    def product(self, left: Node, right: Node) -> Node:
        """The matrix product in the precision of the operands of attention."""
        return p.matmul(left, right, self.precision)

    def grouped(self, x: Node) -> Node:
        """Reshapes [B, H, ...] to [B, G, R, ...]."""
        return p.reshape(x, (*self.group_shape, *x.shape[2:]))

    def repeated(self, x: Node) -> Node:
        """Expands [B, G, ...] to [B, G, R, ...], without a copy."""
        batch, groups, *rest = x.shape
        return p.expand(p.reshape(x, (batch, groups, 1, *rest)), (*self.group_shape, *rest))

    def computed(self) -> Node:
        """The scores [B, G, R, M, N], -inf for keys outside a query's window."""
        scores = scale(self.product(self.query, transpose_last(self.key)), self.scale)
        for bias in self.options.get("bias", ()):
            scores = p.add(scores, self.grouped(broadcast(bias, self.full)))
        before, after = self.window
        is_limited = min(before, after) < UNLIMITED
        if not is_limited and "slopes" not in self.options:
            return scores
        distance = self._distance()
        for slopes in self.options.get("slopes", ()):
            steep = broadcast(p.reshape(slopes, (1, self.heads, 1, 1)), self.full)
            far = p.reshape(p.cast(p.abs(distance), scores.dtype), (self.batch, 1, *self.full[2:]))
            scores = p.subtract(scores, self.grouped(p.multiply(steep, broadcast(far, self.full))))
        if not is_limited:
            return scores
        near = p.logical_and(
            p.less_equal(distance, p.full_like(distance, min(before, UNLIMITED))),
            p.less_equal(p.negative(distance), p.full_like(distance, min(after, UNLIMITED))),
        )
        visible = self.grouped(broadcast(p.reshape(near, (self.batch, 1, *self.full[2:])), self.full))
        return p.where(visible, scores, p.full_like(scores, float("-inf")))

    def _distance(self) -> Node:
        """The position of each query among the keys minus the position of each key: int32 [B, M, N]."""
        shape = (self.batch, *self.full[2:])
        found = p.subtract(p.iota(shape, 1, int32), p.iota(shape, 2, int32))
        for first in self.options.get("first", ()):
            found = p.add(found, broadcast(p.reshape(first, (self.batch, 1, 1)), shape))
        return found

    def dropped(self, x: Node) -> Node:
        """Applies dropout: x · 1 / (1 - p) where a weight is kept, else 0."""
        words = self.options.get("dropout")
        if not words:
            return x
        *outer, count = self.full
        groups = -(-count // GROUP)
        shape = (*outer, groups, GROUP // 4)
        draws = [
            p.reshape(p.random_bits(words[0], words[1], shape, word), (*outer, groups, 1, shape[-1]))
            for word in range(4)
        ]
        bits = p.reshape(p.concatenate(draws, len(outer) + 1), (*outer, groups * GROUP))
        bits = p.slice_(bits, (0,) * len(self.full), self.full, (1,) * len(self.full))
        drawn = p.cast(p.shift_right_logical(bits, p.full_like(bits, 8)), float32)
        is_kept = p.less(scale(drawn, 2.0**-24), p.full(self.full, 1 - self.dropout, float32))
        kept = scale(x, 1 / (1 - self.dropout))
        return p.where(self.grouped(is_kept), kept, p.full_like(kept, 0))


def _attention(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Parts:
    of = _Scores("attention", inputs, attributes)
    scores, axis = of.computed(), (4,)
    top = p.reduce_max(scores, axis) if scores.size else p.full(scores.shape[:4], float("-inf"), scores.dtype)
    lowest = p.full_like(top, float("-inf"))
    finite = p.where(p.equal(top, lowest), p.full_like(top, 0), top)
    weights = p.exp(p.subtract(scores, spread(finite, axis, scores.shape)))
    total = p.reduce_sum(weights, axis)
    is_blind = p.equal(total, p.full_like(total, 0))
    total = p.where(is_blind, p.full_like(total, 1), total)
    log_sum = p.where(is_blind, p.full_like(top, float("inf")), p.add(top, p.log(total)))
    weights = of.dropped(p.divide(weights, spread(total, axis, scores.shape)))
    out, query = of.product(weights, of.value), inputs[0]
    return p.reshape(out, (*query.shape[:3], out.shape[-1])), p.reshape(log_sum, query.shape[:3])


def _attention_gradient(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Parts:
    of = _Scores("attention_gradient", inputs, attributes)
    query, key, value, cotangent, log_sum, delta = inputs[:6]
    dy, shape = of.grouped(of.wide(cotangent)), of.shape
    weights = p.exp(p.subtract(of.computed(), spread(of.grouped(log_sum), (4,), shape)))
    through = of.dropped(of.product(dy, transpose_last(of.value)))
    dscores = p.multiply(weights, p.subtract(through, spread(of.grouped(delta), (4,), shape)))
    to_scores, dscores = p.reshape(dscores, of.full), scale(dscores, of.scale)
    dquery = p.reshape(of.product(dscores, of.key), query.shape)

    def summed(left: Node, right: Node, like: Node) -> Node:
        """The product, summed over the queries of all heads that share a key head."""
        batch, groups, heads, rows, _ = left.shape
        left, right = (p.reshape(x, (batch, groups, heads * rows, x.shape[-1])) for x in (left, right))
        return p.reshape(of.product(transpose_last(left), right), like.shape)

    return dquery, summed(dscores, of.query, key), summed(of.dropped(weights), dy, value), to_scores


# --- recurrent scans --------------------------------------------------------------------------------------------------


def _underived(bundle: Node, cotangents: Sequence[Node | None]) -> Sequence[Node | None]:
    raise AssertionError("derivatives are taken before a target sees the graph")


class _Rows:
    """Selects the rows that have a step: those whose length is greater than the step's number."""

    def __init__(self, lengths: Node | None, steps: int) -> None:
        self.lengths, self.steps = lengths, steps
        self.inputs: dict[Node, Node] = {}
        self._active: Node | None = None
        if lengths is not None:
            self._active = placeholder(lengths.shape, bool_, "active")
            self.inputs[self._active] = self.longer_than(0)

    def longer_than(self, more: int) -> Node:
        """bool [T, B]: whether a row's length is greater than the step's number plus `more`."""
        assert self.lengths is not None
        shape = (self.steps, *self.lengths.shape)
        numbers = p.add(p.iota(shape, 0, int32), p.full(shape, more, int32))
        return p.less(numbers, broadcast(self.lengths, shape))

    def chosen(self, new: Node, old: Node | None = None) -> Node:
        """`new` where a row has the step, else `old`, or zeros without `old`."""
        if self._active is None:
            return new
        active = p.expand(p.reshape(self._active, (*self._active.shape, 1)), new.shape)
        return p.where(active, new, p.full_like(new, 0) if old is None else old)


def _split(x: Node, units: int) -> list[Node]:
    """Splits `x` into parts of `units` elements along the last axis."""
    rows = x.shape[0]
    return [p.slice_(x, (0, first), (rows, first + units), (1, 1)) for first in range(0, x.shape[1], units)]


def _times(x: Node, y: Node, precision: DType | None) -> Node:
    return p.matmul(x, y, precision)


def _rnn_scan(arrays: Sequence[Node], attributes: tuple[Any, ...], lengths: Node | None = None) -> Parts:
    cell, reverse, precision = attributes
    x, w, start, *others = arrays
    steps, batch, wide = x.shape
    units, rows = wide // CELLS[cell], _Rows(lengths, steps)
    own, h = placeholder(x.shape[1:], x.dtype, "inputs"), placeholder(start.shape, x.dtype, "state")
    product = _times(h, transpose_last(w), precision)
    carried = {h: start}
    if cell == "lstm":
        c = placeholder((batch, units), x.dtype, "cell")
        carried[c] = others[0]
        i, f, g, o = _split(p.add(own, product), units)
        i, f, g, o = p.logistic(i), p.logistic(f), p.tanh(g), p.logistic(o)
        new_c = p.add(p.multiply(f, c), p.multiply(i, g))
        m = p.multiply(o, p.tanh(new_c))
        new = m if len(others) == 1 else _times(m, transpose_last(others[1]), precision)
        gates = p.concatenate([i, f, g, o, m][: 4 if len(others) == 1 else 5], 1)
        results = [rows.chosen(new, h), rows.chosen(new_c, c)]
        results += [rows.chosen(each) for each in (new, new_c, gates)]
        order: tuple[int, ...] = (2, 0, 1, 3, 4)
    elif cell == "gru":
        parts, products = _split(own, units), _split(product, units)
        r, z = (p.logistic(p.add(a, b)) for a, b in zip(parts[:2], products[:2], strict=True))
        q = p.add(products[2], broadcast(others[0], h.shape))
        n = p.tanh(p.add(parts[2], p.multiply(r, q)))
        new = p.add(p.multiply(p.subtract(p.full_like(z, 1), z), n), p.multiply(z, h))
        results = [rows.chosen(new, h), rows.chosen(new), rows.chosen(p.concatenate([r, z, n, q], 1))]
        order = (1, 0, 2)
    else:
        total = p.add(own, product)
        new = p.tanh(total) if cell == "tanh" else _rectified(total, total)
        results, order = [rows.chosen(new, h), rows.chosen(new)], (1, 0)
    bundle = scan(results, carried, {own: x, **rows.inputs}, steps, gradient=_underived, reverse=reverse, keep=False)
    return tuple(p.output(bundle, place) for place in order)


def _rectified(x: Node, state: Node) -> Node:
    """x where the state is above 0, else 0."""
    return p.where(p.less_equal(state, p.full_like(state, 0)), p.full_like(x, 0), x)


def _rnn_scan_gradient(arrays: Sequence[Node], attributes: tuple[Any, ...], lengths: Node | None = None) -> Parts:
    cell, reverse, precision = attributes
    dy, last_dh, *others = arrays
    steps, batch, _ = dy.shape
    rows, dtype = _Rows(lengths, steps), dy.dtype
    sliced: dict[Node, Node] = {}

    def part(array: Node, name: str) -> Node:
        """A placeholder for a step's slice of `array`."""
        leaf = placeholder(array.shape[1:], dtype, name)
        sliced[leaf] = array
        return leaf

    def one_less(x: Node) -> Node:
        return p.subtract(p.full_like(x, 1), x)

    def slope(x: Node) -> Node:
        """The derivative of tanh, computed from its value x."""
        return one_less(p.multiply(x, x))

    w = others[{"lstm": 3, "gru": 2}.get(cell, 1)]
    own_dy, dh, dp = (
        part(dy, "dy"),
        placeholder(last_dh.shape, dtype, "dh"),
        placeholder((batch, w.shape[0]), dtype, "dp"),
    )
    zeros = p.full(dp.shape, 0, dtype)
    carried = {dh: last_dh, dp: zeros}
    total = p.add(p.add(own_dy, dh), _times(dp, w, precision))
    none = p.full_like(dh, 0)
    if cell == "lstm":
        last_dc, cells, gates, _, start, *projection = others
        units = last_dc.shape[1]
        dc = placeholder(last_dc.shape, dtype, "dc")
        carried[dc] = last_dc
        before, c = part(_before(cells, start, reverse, rows), "before"), part(cells, "cells")
        i, f, g, o = _split(part(gates, "gates"), units)[:4]
        states = total
        if projection:
            total = _times(total, projection[0], precision)
        hyperbolic = p.tanh(c)
        inner = p.add(dc, p.multiply(p.multiply(total, o), slope(hyperbolic)))
        parts = [
            p.multiply(p.multiply(p.multiply(inner, g), i), one_less(i)),
            p.multiply(p.multiply(p.multiply(inner, before), f), one_less(f)),
            p.multiply(p.multiply(inner, i), slope(g)),
            p.multiply(p.multiply(p.multiply(total, hyperbolic), o), one_less(o)),
        ]
        dx = rows.chosen(p.concatenate(parts, 1))
        results = [rows.chosen(none, dh), dx, rows.chosen(p.multiply(inner, f), dc), dx]
        order: tuple[int, ...] = (3, 0, 2)
        if projection:
            results.append(rows.chosen(states))
            order = (*order, 4)
    elif cell == "gru":
        y, gates, _, start = others
        before = part(_before(y, start, reverse, rows), "before")
        r, z, n, q = _split(part(gates, "gates"), y.shape[2])
        dn = p.multiply(p.multiply(total, one_less(z)), slope(n))
        first = [
            p.multiply(p.multiply(p.multiply(dn, q), r), one_less(r)),
            p.multiply(p.multiply(p.multiply(total, p.subtract(before, n)), z), one_less(z)),
        ]
        dx, products = (rows.chosen(p.concatenate([*first, third], 1)) for third in (dn, p.multiply(dn, r)))
        results, order = [rows.chosen(p.multiply(total, z), dh), products, dx, products], (2, 3, 0)
    else:
        y = part(others[0], "y")
        dx = rows.chosen(p.multiply(total, slope(y)) if cell == "tanh" else _rectified(total, y))
        results, order = [rows.chosen(none, dh), dx, dx], (2, 0)
    bundle = scan(results, carried, {**sliced, **rows.inputs}, steps, gradient=_underived, reverse=not reverse,
                  keep=False)  # fmt: skip
    return tuple(p.output(bundle, place) for place in order)


def _before(states: Node, start: Node, reverse: bool, rows: _Rows) -> Node:
    """The states before each step: `start` before the first computed step, which is the last one of a reversed row."""
    steps, *shape = states.shape
    zeros, ones = (0,) * states.ndim, (1,) * states.ndim
    first = p.reshape(start, (1, *shape))
    if not reverse:
        return p.concatenate([first, p.slice_(states, zeros, (steps - 1, *shape), ones)], 0)
    moved = p.concatenate([p.slice_(states, (1, *zeros[1:]), states.shape, ones), first], 0)
    if rows.lengths is None:
        return moved
    has_before = p.expand(p.reshape(rows.longer_than(1), (steps, shape[0], 1)), states.shape)
    return p.where(has_before, moved, p.expand(first, states.shape))


def _present(x: Node, lengths: Node) -> Node:
    """x [T, B, F] with zeros past each row's end."""
    shape = x.shape[:2]
    present = p.less(p.iota(shape, 0, int32), broadcast(lengths, shape))
    return p.where(p.expand(p.reshape(present, (*shape, 1)), x.shape), x, p.full_like(x, 0))


def _flat(x: Node) -> Node:
    """Reshapes [T, B, F] to [T · B, F]."""
    return p.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))


def _ragged(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Parts:
    x, w_ih, bias, *states, lengths = inputs
    products = _times(_flat(_present(x, lengths)), transpose_last(w_ih), attributes[2])
    products = p.add(products, broadcast(bias, products.shape))
    return _rnn_scan([p.reshape(products, (*x.shape[:2], bias.shape[0])), *states], attributes, lengths)


def _ragged_gradient(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Parts:
    cell, reverse, precision = attributes
    is_lstm, is_gru = cell == "lstm", cell == "gru"
    *arrays, lengths = inputs
    given, (y, *rest) = arrays[: 2 + is_lstm], arrays[2 + is_lstm :]
    count = 2 if is_lstm else int(is_gru)
    saved, (x, w_ih, w, h, *others) = rest[:count], rest[count:]
    states = [*saved, w, *others] if is_lstm else [y, *saved, w, *([h] if is_gru else [])]
    found = _rnn_scan_gradient([*given, *states], attributes, lengths)
    dx, carried = found[0], found[2 if is_gru else 1]
    dp = found[1] if is_gru else dx  # the gradient of the recurrent products

    def summed(left: Node, right: Node) -> Node:
        return _times(transpose_last(_flat(left)), _flat(right), precision)

    shape = dp.shape
    firsts = p.slice_(dp, (0, 0, 0), (1, *shape[1:]), (1, 1, 1))
    if reverse:
        last = p.equal(p.iota(shape[:2], 0, int32), broadcast(p.subtract(lengths, p.full_like(lengths, 1)), shape[:2]))
        firsts = p.where(p.expand(p.reshape(last, (*shape[:2], 1)), shape), dp, p.full_like(dp, 0))
    first = p.reduce_sum(firsts, (0,))
    before = _before(y, h, reverse, _Rows(lengths, shape[0]))
    results = [
        p.reshape(_times(_flat(dx), w_ih, precision), x.shape), summed(dx, _present(x, lengths)),
        p.reduce_sum(dx, (0, 1)), summed(dp, before), p.add(carried, _times(first, w, precision)),
    ]  # fmt: skip
    if is_lstm:
        results.append(found[2])
        if len(others) == 2:
            gates, units = saved[1], others[1].shape[1]
            steps, batch, wide = gates.shape
            results.append(summed(found[3], p.slice_(gates, (0, 0, wide - units), (steps, batch, wide), (1, 1, 1))))
    elif is_gru:
        results.append(p.slice_(p.reduce_sum(dp, (0, 1)), (shape[2] - h.shape[1],), (shape[2],), (1,)))
    return tuple(results)


_RULES: dict[str, Callable[[Sequence[Node], tuple[Any, ...]], Parts]] = {
    "attention": _attention,
    "attention_gradient": _attention_gradient,
    "rnn_scan": _rnn_scan,
    "rnn_scan_gradient": _rnn_scan_gradient,
    "rnn_scan_ragged": _ragged,
    "rnn_scan_ragged_gradient": _ragged_gradient,
}

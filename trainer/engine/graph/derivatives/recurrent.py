"""Derivatives of recurrent scans: one backward scan, then one large product for the gradient of the weights.

The backward scan has no derivative rule: for second derivatives, a layer must be a loop over cells (`nn.RNNCell` etc.)
instead of a scan.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph import primitives as p
from trainer.engine.graph.derivatives.contraction import weight_gradient
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Gradient, Node


def _given(node: Node, cotangents: Sequence[Node | None]) -> list[Node]:
    """The cotangents of all outputs of a scan, with zeros for None."""
    return [p.full(shape, 0.0, dtype) if dy is None else dy
            for dy, (shape, dtype) in zip(cotangents, p.outputs_of(node), strict=True)]  # fmt: skip


def _scan(node: Node, cotangents: Sequence[Node | None]) -> Sequence[Node | None]:
    cell, reverse, precision = node.attributes
    x, w, h, *others = node.inputs
    given = _given(node, cotangents)
    is_lstm, is_gru = cell == "lstm", cell == "gru"
    outputs = [p.output(node, number) for number in range(len(given))]
    inputs = given[: 3 if is_lstm else 2]
    inputs += outputs[3:] if is_lstm else outputs[::2]
    inputs += [w, *([others[0]] if is_lstm else [h] if is_gru else []), *others[1:]]
    bundle = p.rnn_scan_gradient(inputs, cell, reverse, precision)
    dx = p.output(bundle, 0)
    dp = p.output(bundle, 1) if is_gru else dx  # gradient of the products
    from_carry = p.output(bundle, 2 if is_gru else 1)
    dw = weight_gradient(_flat(dp), _flat(_before(outputs[0], h, reverse)), precision)
    dh = p.add(from_carry, p.matmul(_first(dp, reverse), w, precision))
    found: list[Node | None] = [dx, dw, dh]
    if is_lstm:
        found.append(p.output(bundle, 2))
        if len(others) == 2:
            found.append(
                weight_gradient(_flat(p.output(bundle, 3)), _flat(_last_part(outputs[4], x.shape[2] // 4)), precision)
            )
    elif is_gru:
        found.append(p.reduce_sum(_last_part(dp, h.shape[1]), (0, 1)))
    return found


def _ragged(node: Node, cotangents: Sequence[Node | None]) -> Sequence[Node | None]:
    cell, reverse, precision = node.attributes
    x, w_ih, _, w, h, *others, lengths = node.inputs
    given = _given(node, cotangents)
    is_lstm, is_gru = cell == "lstm", cell == "gru"
    saved = [p.output(node, number) for number in range(len(given))]
    inputs = [*given[: 2 + is_lstm], saved[0], *saved[2 + is_lstm :], x, w_ih, w, h, *([] if is_gru else others)]
    bundle = p.rnn_scan_ragged_gradient([*inputs, lengths], cell, reverse, precision)
    return [*(p.output(bundle, number) for number in range(len(p.outputs_of(bundle)))), None]


def _refused(node: Node, cotangents: Sequence[Node | None]) -> Sequence[Node | None]:
    raise refusal(
        "gradients",
        "the derivative of a recurrent scan has none itself",
        found=f"a second derivative through a scan of {node.attributes[0]!r} cells",
        expected="first derivatives",
        hint="Write the layer as a loop over nn.RNNCell, nn.LSTMCell or nn.GRUCell: it has derivatives of any order.",
    )


def _slice(x: Node, axis: int, start: int, stop: int) -> Node:
    starts, stops = [0] * x.ndim, list(x.shape)
    starts[axis], stops[axis] = start, stop
    return p.slice_(x, tuple(starts), tuple(stops), (1,) * x.ndim)


def _last_part(x: Node, units: int) -> Node:
    return _slice(x, 2, x.shape[2] - units, x.shape[2])


def _flat(x: Node) -> Node:
    return p.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))


def _before(y: Node, h: Node, reverse: bool) -> Node:
    """The state before each step."""
    steps = y.shape[0]
    first = p.reshape(h, (1, *h.shape))
    if steps == 0:
        return y
    if reverse:
        return p.concatenate((_slice(y, 0, 1, steps), first), 0)
    return p.concatenate((first, _slice(y, 0, 0, steps - 1)), 0)


def _first(dp: Node, reverse: bool) -> Node:
    """The slice [B, N] of [T, B, N] at the first step of the scan."""
    steps, batch, wide = dp.shape
    if steps == 0:
        return p.full((batch, wide), 0.0, dp.dtype)
    place = steps - 1 if reverse else 0
    return p.reshape(_slice(dp, 0, place, place + 1), (batch, wide))


GRADIENTS: dict[str, Gradient | None] = {
    "rnn_scan": _scan,
    "rnn_scan_ragged": _ragged,
    **dict.fromkeys(("rnn_scan_gradient", "rnn_scan_ragged_gradient"), _refused),
}

"""Recurrent layers over rows of different lengths: the products of their inputs, the scan, and the backward pass.

Each direction is one primitive, since the arrays between products and scan only have the steps of each row. Steps past
the end of a row take no part in products or sums, whatever their values (NaN included), change no state, and give
zeros. A reversed scan begins at the last step of each row.

Arrays: x [T, B, F], w_ih [G·H, F], bias [G·H] (both biases, except the recurrent one of a GRU's n), and the arrays of
`recurrent.py`; lengths int32 [B], each 0 to T, in any order. Kernels don't check lengths: larger ones read past the
arrays. Targets choose what a scan keeps for the backward pass: only the steps that rows have, in the target's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, Outputs, Shape, make_node
from trainer.engine.graph.primitives.recurrent import (
    CELLS,
    check,
    check_kinds,
    recurrent_primitive,
    rounded,
    scan_outputs,
    scanned,
    scanned_back,
)

NAME, BACK = "rnn_scan_ragged", "rnn_scan_ragged_gradient"


def _split(name: str, inputs: Sequence[Node], attributes: tuple[Any, ...]) -> tuple[Sequence[Node], Node]:
    """Checks the inputs, and returns the arrays and the lengths."""
    check(name, len(inputs) > 1 and inputs[-1].dtype is dtypes.int32, inputs, "arrays, then lengths of int32")
    check_kinds(name, inputs[:-1], attributes)
    return inputs[:-1], inputs[-1]


def _outputs(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Outputs:
    (x, *weights), lengths = _split(NAME, inputs, attributes)
    check(NAME, len(weights) > 3 and x.ndim == 3 and weights[0].ndim == 2, inputs, "x [T, B, F], w_ih [G·H, F]")
    (w_ih, bias), scan = weights[:2], weights[2:]
    (steps, batch, features), rows = x.shape, w_ih.shape[0]
    fits = w_ih.shape == (rows, features) and bias.shape == (rows,) and lengths.shape == (batch,)
    check(NAME, fits, inputs, "w_ih [G·H, F], bias [G·H], lengths [B]")
    products = _Kind((steps, batch, rows), x.dtype)
    return scan_outputs(NAME, [products, *scan], attributes[0])


class _Kind:
    """The shape and dtype of an array without a node."""

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)


def _present(lengths: np.ndarray, steps: int) -> np.ndarray:
    """Mask [T, B] of the steps that each row has."""
    return np.asarray(np.arange(steps)[:, None] < lengths)


def _reference(attributes: tuple[Any, ...], *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    x, w_ih, bias, *scan = (array.astype(np.float64) for array in inputs[:-1])
    lengths, precision = inputs[-1], attributes[2]
    products = np.zeros((*x.shape[:2], len(bias)))
    present = _present(lengths, len(x))
    products[present] = rounded(x[present], precision) @ rounded(w_ih, precision).T + bias
    return scanned(attributes, [products, *scan], lengths)


def _before(y: np.ndarray, h: np.ndarray, lengths: np.ndarray, reverse: bool) -> np.ndarray:
    """The state before each step."""
    if not reverse:
        return np.concatenate([h[None], y[:-1]])
    later = np.concatenate([y[1:], h[None]])
    return np.where((np.arange(1, len(y) + 1)[:, None] < lengths)[:, :, None], later, h)


def _gradient_outputs(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Outputs:
    cell, _, _ = attributes
    arrays, lengths = _split(BACK, inputs, attributes)
    count = {"lstm": (11, 12), "gru": (8,)}.get(cell, (7,))
    check(BACK, len(arrays) in count, inputs, f"{count[0]} arrays")
    dy, *others = arrays[0], *arrays[2:]
    is_lstm, gates, is_projected = cell == "lstm", CELLS[cell], len(arrays) == 12
    x, w_ih, w = others[4 if is_lstm else 2 if cell == "gru" else 1 :][:3]
    check(BACK, (dy.ndim, x.ndim, w.ndim) == (3, 3, 2), inputs, "dy [T, B, R], x [T, B, F], w [G·H, R]")
    (steps, batch, size), dtype, features = dy.shape, dy.dtype, x.shape[2]
    units = w.shape[0] // gates
    state, cells, wide = (batch, size), (batch, units), gates * units
    check(BACK, wide == w.shape[0] and lengths.shape == (batch,), inputs, "w [G·H, R], lengths [B]")
    check(BACK, is_projected or units == size, inputs, "states of H units")
    expected: list[Shape] = [dy.shape, state, *([cells] if is_lstm else []), dy.shape]
    if is_lstm:
        expected += [(steps, batch, units), (steps, batch, (4 + is_projected) * units)]
    elif cell == "gru":
        expected.append((steps, batch, 4 * units))
    expected += [(steps, batch, features), (wide, features), (wide, size), state]
    expected += [cells, (size, units)][: (1 + is_projected) * is_lstm]
    check(BACK, [array.shape for array in arrays] == expected, inputs, f"arrays of {expected}")
    found: list[Shape] = [x.shape, w_ih.shape, (wide,), w.shape, state]
    if is_lstm:
        found += [cells, (size, units)][: 1 + is_projected]
    elif cell == "gru":
        found.append((units,))
    return tuple((shape, dtype) for shape in found)


def _gradient_reference(attributes: tuple[Any, ...], *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    cell, reverse, precision = attributes
    lengths, arrays = inputs[-1], [array.astype(np.float64) for array in inputs[:-1]]
    is_lstm, is_gru = cell == "lstm", cell == "gru"
    given, rest = arrays[: 2 + is_lstm], arrays[2 + is_lstm :]
    y, saved, rest = rest[0], rest[1 : 1 + (2 if is_lstm else is_gru)], rest[1 + (2 if is_lstm else is_gru) :]
    x, w_ih, w, h, *others = rest
    states = [*saved, w, *(others[:1] if is_lstm else []), *others[1:]] if is_lstm else [y, *saved, w, *([h] * is_gru)]
    found = scanned_back(attributes, [*given, *states], lengths)
    dx, carried = found[0], found[2 if is_gru else 1]
    dp = found[1] if is_gru else dx  # gradient of the recurrent products
    present = _present(lengths, len(x))

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return rounded(left, precision) @ rounded(right, precision)

    def summed(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return product(left[present].T, right[present])

    first = dp[np.maximum(lengths - 1, 0) if reverse else np.zeros_like(lengths), np.arange(len(lengths))]
    dx_in = np.zeros(x.shape)
    dx_in[present] = product(dx[present], w_ih)
    results = [dx_in, summed(dx, x), dx[present].sum(0), summed(dp, _before(y, h, lengths, reverse))]
    results.append(carried + product(np.where(lengths[:, None] > 0, first, 0), w))
    if is_lstm:
        results.append(found[2])
        if len(others) == 2:
            results.append(summed(found[3], saved[1][:, :, -others[1].shape[1] :]))
    elif is_gru:
        results.append(dp[present][:, -len(h[0]) :].sum(0))
    return tuple(results)


_SCAN = recurrent_primitive(NAME, _outputs, _reference)
_GRADIENT = recurrent_primitive(BACK, _gradient_outputs, _gradient_reference)


def rnn_scan_ragged(inputs: Sequence[Node], cell: str, reverse: bool, precision: DType | None) -> Node:
    """The bundle of a layer over ragged rows. Inputs: x, w_ih, bias, the inputs of `rnn_scan` after its x, and lengths.

    Outputs: those of `rnn_scan`; only y and the last states are in the order of the rows.
    """
    return make_node(_SCAN, tuple(inputs), (cell, reverse, precision))


def rnn_scan_ragged_gradient(inputs: Sequence[Node], cell: str, reverse: bool, precision: DType | None) -> Node:
    """The bundle of a ragged layer's gradients. Inputs: the cotangents of y, the last h and, for "lstm", the last c;
    then the layer's outputs (y, c, gates), x, w_ih, w, the first states, a projection, and lengths.

    Outputs: dx [T, B, F] with zeros past the end of each row, dw_ih, dbias [G·H], dw, dh [B, R]; for "lstm" dc [B, H]
    and dprojection; for "gru" the gradient of the bias of n [H].
    """
    return make_node(_GRADIENT, tuple(inputs), (cell, reverse, precision))

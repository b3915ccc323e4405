"""Recurrent scans: a layer's states over all time steps, given the products of its inputs, and the backward pass.

Arrays are time-major: x [T, B, G·H] holds the products of the inputs plus biases, w [G·H, R] the recurrent weights of G
gates of H units, whose states h are [B, R]. Cells, with p = h·wᵀ:

- "tanh", "relu" (G = 1): h = f(x + p).
- "lstm" (G = 4: i, f, g, o; Hochreiter & Schmidhuber 1997, Gers et al. 2000): c = σ(f)·c + σ(i)·tanh(g),
  m = σ(o)·tanh(c), h = m, or with a projection [R, H] (Sak et al. 2014) h = m·projectionᵀ.
- "gru" (G = 3: r, z, n; Cho et al. 2014, with the reset after the product): q = p_n + bias,
  n = tanh(x_n + σ(r)·q), h = (1 − σ(z))·n + σ(z)·h.

`precision` is a 16-bit dtype to which both operands of products are rounded, or None. Rows of different lengths have
separate primitives (`ragged.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trainer.engine.graph import dtypes, half
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.graph.node import Node, Outputs, Primitive, Shape, make_node
from trainer.engine.graph.primitives.output import bundle_dtype
from trainer.engine.graph.primitives.table import register_bundle

CELLS = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}
"""Number of gates of each cell."""

ATTRIBUTES = ("cell", "reverse", "precision")


def check(name: str, holds: bool, inputs: Sequence[Node], expected: str) -> None:
    if not holds:
        raise refusal(name, "shapes or dtypes don't fit", found=describe(inputs), expected=expected)


def check_kinds(name: str, arrays: Sequence[Node], attributes: tuple[Any, ...]) -> None:
    """Rejects an unknown cell, an unsupported precision or dtype, and arrays of different dtypes."""
    cell, _, precision = attributes
    check(name, cell in CELLS and len(arrays) > 0, arrays, f"a cell of {', '.join(CELLS)}")
    is_narrow = precision is None or (precision.is_half and arrays[0].dtype is dtypes.float32)
    check(name, is_narrow, arrays, "no precision, or one of 16 bits for float32")
    dtype = arrays[0].dtype
    same = dtype in (dtypes.float32, dtypes.float64) and all(array.dtype is dtype for array in arrays)
    check(name, same, arrays, "arrays of float32, or of float64")


# --- the scan ---------------------------------------------------------------------------------------------------------


def _outputs(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Outputs:
    check_kinds("rnn_scan", inputs, attributes)
    return scan_outputs("rnn_scan", inputs, attributes[0])


def scan_outputs(name: str, arrays: Sequence[Any], cell: str) -> Outputs:
    """The outputs of a scan of `arrays`: nodes, or objects with a shape and a dtype."""
    gates, counts = CELLS.get(cell, 1), {"lstm": (4, 5), "gru": (4,)}.get(cell, (3,))
    check(name, len(arrays) in counts, arrays, f"{counts[0]} arrays")
    x, w, h = arrays[:3]
    check(name, (x.ndim, w.ndim, h.ndim) == (3, 2, 2), arrays, "x [T, B, G·H], w [G·H, R], h [B, R]")
    (steps, batch, wide), (rows, size) = x.shape, w.shape
    units = wide // gates
    fits = wide == gates * units == rows and h.shape == (batch, size)
    check(name, fits, arrays, "x [T, B, G·H], w [G·H, R], h [B, R]")
    dtype = x.dtype
    y, states = ((steps, batch, size), dtype), ((batch, size), dtype)
    if cell == "lstm":
        is_projected = len(arrays) == 5
        fits = arrays[3].shape == (batch, units) and (
            arrays[4].shape == (size, units) if is_projected else size == units
        )
        check(name, fits, arrays, "c [B, H], and a projection [R, H] unless R is H")
        cells = ((steps, batch, units), dtype)
        return y, states, ((batch, units), dtype), cells, ((steps, batch, (4 + is_projected) * units), dtype)
    check(name, size == units, arrays, "states of H units")
    if cell == "gru":
        check(name, arrays[3].shape == (units,), arrays, "bias [H]")
        return y, states, ((steps, batch, 4 * units), dtype)
    return y, states


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))


def rounded(array: np.ndarray, precision: DType | None) -> np.ndarray:
    return array if precision is None else half.rounded(array, precision).astype(np.float64)


def _walk(steps: int, batch: int, lengths: np.ndarray | None, backward: bool) -> Iterator[tuple[int, np.ndarray]]:
    """Yields each step, in order, with the mask of the rows that have it."""
    for t in reversed(range(steps)) if backward else range(steps):
        yield t, np.full(batch, True) if lengths is None else lengths > t


def _reference(attributes: tuple[Any, ...], *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return scanned(attributes, arrays, None)


def scanned(
    attributes: tuple[Any, ...], arrays: Sequence[np.ndarray], lengths: np.ndarray | None
) -> tuple[np.ndarray, ...]:
    """The outputs of a scan; with lengths [B], only for the steps that a row has, and zeros elsewhere."""
    cell, reverse, precision = attributes
    x, w, h, *others = (array.astype(np.float64) for array in arrays)
    w = rounded(w, precision)
    (steps, batch, _), h = x.shape, h.copy()
    y = np.zeros((steps, *h.shape))
    units = x.shape[2] // CELLS[cell]
    gates = np.zeros((steps, batch, (4 + (cell == "lstm" and len(others) == 2)) * units))
    cells = np.zeros((steps, batch, units))
    c = others[0].copy() if cell == "lstm" else h
    for t, rows in _walk(steps, batch, lengths, reverse):
        product = rounded(h[rows], precision) @ w.T
        if cell == "lstm":
            i, f, g, o = np.split(x[t, rows] + product, 4, axis=1)
            i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
            cells[t, rows] = c[rows] = f * c[rows] + i * g
            new = o * np.tanh(c[rows])
            gates[t, rows] = np.concatenate([i, f, g, o, new][: gates.shape[2] // units], axis=1)
            if len(others) == 2:
                new = rounded(new, precision) @ rounded(others[1], precision).T
        elif cell == "gru":
            own, bias = x[t, rows], others[0]
            r, z = (_sigmoid(own[:, k * units :][:, :units] + product[:, k * units :][:, :units]) for k in range(2))
            q = product[:, 2 * units :] + bias
            n = np.tanh(own[:, 2 * units :] + r * q)
            gates[t, rows] = np.concatenate([r, z, n, q], axis=1)
            new = (1 - z) * n + z * h[rows]
        else:
            new = x[t, rows] + product
            new = np.tanh(new) if cell == "tanh" else np.where(new <= 0, 0, new)
        y[t, rows] = h[rows] = new
    return {"lstm": (y, h, c, cells, gates), "gru": (y, h, gates)}.get(cell, (y, h))


# --- the backward scan ------------------------------------------------------------------------------------------------


def _gradient_outputs(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Outputs:
    cell, _, _ = attributes
    check_kinds("rnn_scan_gradient", inputs, attributes)
    name, counts = "rnn_scan_gradient", {"lstm": (7, 8), "gru": (6,)}.get(cell, (4,))
    check(name, len(inputs) in counts, inputs, f"{counts[0]} arrays")
    dy, dh = inputs[:2]
    check(name, dy.ndim == 3 and dh.shape == dy.shape[1:], inputs, "dy [T, B, R]")
    (steps, batch, size), dtype = dy.shape, dy.dtype
    units, gates, sequence = size, CELLS.get(cell, 1), (steps, batch)
    expected: list[Shape]
    if cell == "lstm":
        check(name, inputs[2].ndim == 2, inputs, "dc [B, H]")
        units, more = inputs[2].shape[1], len(inputs) - 7
        expected = [(batch, units), (*sequence, units), (*sequence, (4 + more) * units), (4 * units, size)]
        expected += [(batch, units), (size, units)][: 1 + more]
        check(name, more == 1 or units == size, inputs, "a projection [R, H] unless R is H")
    elif cell == "gru":
        expected = [(*sequence, size), (*sequence, 4 * size), (3 * size, size), (batch, size)]
    else:
        expected = [(*sequence, size), (size, size)]
    check(name, [each.shape for each in inputs[2:]] == expected, inputs, f"then {expected}")
    wide: tuple[Shape, DType] = ((*sequence, gates * units), dtype)
    if cell == "lstm":
        found = (wide, (dh.shape, dtype), ((batch, units), dtype))
        return (*found, (dy.shape, dtype)) if len(inputs) == 8 else found
    return (wide, wide, (dh.shape, dtype)) if cell == "gru" else (wide, (dh.shape, dtype))


def _gradient_reference(attributes: tuple[Any, ...], *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return scanned_back(attributes, arrays, None)


def scanned_back(
    attributes: tuple[Any, ...], arrays: Sequence[np.ndarray], lengths: np.ndarray | None
) -> tuple[np.ndarray, ...]:
    """The outputs of a scan's gradient; with lengths [B], only for the steps that a row has, and zeros elsewhere."""
    cell, reverse, precision = attributes
    dy, last, *others = (array.astype(np.float64) for array in arrays)
    steps, batch = dy.shape[:2]
    dh = dc = last.copy()
    if cell == "lstm":
        dc, cells, gates, w, start, *projection = others
        dc, units = dc.copy(), dc.shape[1]
    elif cell == "gru":
        y, gates, w, start = others
        units = y.shape[2]
    else:
        y, w = others
        units = y.shape[2]
    w = rounded(w, precision)
    dx = np.zeros((steps, batch, w.shape[0]))
    dp, dhs = np.zeros_like(dx), np.zeros_like(dy)  # gradients of the products and of the states
    for t, rows in _walk(steps, batch, lengths, not reverse):
        after, before = (t - 1, t + 1) if reverse else (t + 1, t - 1)
        total = dy[t, rows] + dh[rows]
        if 0 <= after < steps:
            total += rounded(dp[after, rows], precision) @ w
        dh[rows] = 0
        if cell in ("lstm", "gru"):
            states = cells if cell == "lstm" else y
            has_before = (0 <= before < steps) & (True if lengths is None else before < lengths)
            earlier = np.where(np.reshape(has_before, (-1, 1)), states[min(max(before, 0), steps - 1)], start)[rows]
        if cell == "lstm":
            i, f, g, o = (gates[t, rows, k * units : (k + 1) * units] for k in range(4))
            dhs[t, rows] = total
            if projection:
                total = rounded(total, precision) @ rounded(projection[0], precision)
            hyperbolic = np.tanh(cells[t, rows])
            own = dc[rows] + total * o * (1 - hyperbolic**2)
            parts = [
                own * g * i * (1 - i),
                own * earlier * f * (1 - f),
                own * i * (1 - g**2),
                total * hyperbolic * o * (1 - o),
            ]
            dp[t, rows] = dx[t, rows] = np.concatenate(parts, axis=1)
            dc[rows] = own * f
        elif cell == "gru":
            r, z, n, q = (gates[t, rows, k * units : (k + 1) * units] for k in range(4))
            dn = total * (1 - z) * (1 - n**2)
            first = [dn * q * r * (1 - r), total * (earlier - n) * z * (1 - z)]
            dx[t, rows], dp[t, rows] = (np.concatenate([*first, third], axis=1) for third in (dn, dn * r))
            dh[rows] = total * z
        else:
            state = y[t, rows]
            dp[t, rows] = dx[t, rows] = total * (1 - state**2) if cell == "tanh" else np.where(state <= 0, 0, total)
    if cell == "lstm":
        return (dx, dh, dc, dhs) if projection else (dx, dh, dc)
    return (dx, dp, dh) if cell == "gru" else (dx, dh)


def recurrent_primitive(name: str, outputs: Any, reference: Any) -> Primitive:
    return register_bundle(
        Primitive(
            name, "bundle", lambda inputs, attributes: (),
            lambda inputs, attributes: bundle_dtype(outputs(inputs, attributes)), reference, ATTRIBUTES, outputs,
        )
    )  # fmt: skip


_SCAN = recurrent_primitive("rnn_scan", _outputs, _reference)
_GRADIENT = recurrent_primitive("rnn_scan_gradient", _gradient_outputs, _gradient_reference)


def rnn_scan(inputs: Sequence[Node], cell: str, reverse: bool, precision: DType | None) -> Node:
    """The bundle of a scan. Inputs: x, w, h; for "lstm" also c and optionally a projection, for "gru" a bias.

    Outputs: y [T, B, R], the last h [B, R]; for "lstm" the last c [B, H], all c [T, B, H] and the gates i, f, g, o
    [T, B, 4·H], with a projection i, f, g, o, m [T, B, 5·H]; for "gru" r, z, n and q [T, B, 4·H].
    """
    return make_node(_SCAN, tuple(inputs), (cell, reverse, precision))


def rnn_scan_gradient(inputs: Sequence[Node], cell: str, reverse: bool, precision: DType | None) -> Node:
    """The bundle of a scan's gradients. Inputs: the cotangents of y, the last h and, for "lstm", the last c; then the
    scan's outputs (y unless "lstm", c, gates), w, the first state (c for "lstm", h for "gru"), and a projection.

    Outputs: dx [T, B, G·H]; for "gru" also the gradient of the products; the gradient of the first h [B, R], without
    its part through the first step's product; for "lstm" dc [B, H]; with a projection dh of all steps.
    """
    return make_node(_GRADIENT, tuple(inputs), (cell, reverse, precision))

"""The reference device against plain NumPy: each primitive's entry, written down a second time and independently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.samples import Sample, rounded, samples
from trainer.engine.graph.primitives import TABLE
from trainer.engine.targets.reference import evaluate

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axes, x: function(x.astype(np.float64) if x.dtype.kind == "f" else x, axis=axes)


def _pad(low: Any, high: Any, interior: Any, value: Any, x: np.ndarray) -> np.ndarray:
    for axis, between in enumerate(interior):
        if between and x.shape[axis] > 1:
            places = np.repeat(np.arange(1, x.shape[axis]), between)
            x = np.insert(x, places, value, axis=axis)
    return np.pad(x, list(zip(low, high, strict=True)), constant_values=value) if x.ndim else x


def _convolution(
    strides: Any, padding: Any, dilation: Any, groups: int, precision: Any, x: np.ndarray, w: np.ndarray
) -> np.ndarray:
    """By the definition: one output element after the other."""
    x, w = _to_precision(precision, x, w)
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *padding))
    reach = [spacing * (size - 1) + 1 for size, spacing in zip(w.shape[2:], dilation, strict=True)]
    extents = [(x.shape[2 + i] - reach[i]) // strides[i] + 1 for i in (0, 1)]
    y = np.zeros((x.shape[0], w.shape[0], *extents))
    inputs, outputs = w.shape[1], w.shape[0] // groups
    for k in range(w.shape[0]):
        channels = slice(k // outputs * inputs, k // outputs * inputs + inputs)
        for i in range(extents[0]):
            for j in range(extents[1]):
                top, left = i * strides[0], j * strides[1]
                patch = x[:, channels, top : top + reach[0] : dilation[0], left : left + reach[1] : dilation[1]]
                y[:, k, i, j] = (patch * w[k].astype(np.float64)).sum((1, 2, 3))
    return y


def _adjoint(forward: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], y: np.ndarray) -> np.ndarray:
    """The transpose of a linear map applied to `y`: one column of its matrix after the other."""
    x = np.zeros(shape)
    flat = x.reshape(-1)
    result = np.zeros(flat.shape)
    for place in range(flat.size):
        flat[place] = 1
        result[place] = (forward(x) * y).sum()
        flat[place] = 0
    return result.reshape(shape)


def _to_precision(precision: Any, *operands: np.ndarray) -> list[np.ndarray]:
    return [operand if precision is None else rounded(operand, precision) for operand in operands]


def _input_gradient(
    s: Any, padding: Any, d: Any, groups: int, precision: Any, spatial: Any, y: Any, w: Any
) -> np.ndarray:
    y, w = _to_precision(precision, y, w)
    shape = (y.shape[0], w.shape[1] * groups, *spatial)
    return _adjoint(lambda x: _convolution(s, padding, d, groups, None, x, w), shape, y.astype(np.float64))


def _weight_gradient(
    s: Any, padding: Any, d: Any, groups: int, precision: Any, window: Any, x: Any, y: Any
) -> np.ndarray:
    """By the definition: one weight after the other."""
    x, y = _to_precision(precision, x, y)
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *padding))
    inputs, outputs = x.shape[1] // groups, y.shape[1] // groups
    result = np.zeros((y.shape[1], inputs, *window))
    for k, c, i, j in np.ndindex(result.shape):
        rows, columns = (slice(first * d[axis], first * d[axis] + s[axis] * (y.shape[2 + axis] - 1) + 1, s[axis])
                         for axis, first in enumerate((i, j)))  # fmt: skip
        result[k, c, i, j] = (x[:, k // outputs * inputs + c, rows, columns] * y[:, k]).sum()
    return result


def _window_argmax(window: Any, strides: Any, padding: Any, dilation: Any, x: np.ndarray) -> np.ndarray:
    n, c, height, width = x.shape
    reach = [d * (s - 1) + 1 for s, d in zip(window, dilation, strict=True)]
    rows, columns = ((x.shape[2 + i] + sum(padding[i]) - reach[i]) // strides[i] + 1 for i in (0, 1))
    result = np.zeros((n, c, rows, columns), np.int32)
    for place in np.ndindex(result.shape):
        top, left = place[2] * strides[0] - padding[0][0], place[3] * strides[1] - padding[1][0]
        spots = [
            (h, v)
            for h in range(top, top + reach[0], dilation[0])
            for v in range(left, left + reach[1], dilation[1])
            if 0 <= h < height and 0 <= v < width
        ]
        h, v = spots[int(np.argmax([x[place[0], place[1], h, v] for h, v in spots]))]
        result[place] = h * width + v
    return result


def _window_max(window: Any, strides: Any, padding: Any, dilation: Any, x: np.ndarray) -> np.ndarray:
    places = _window_argmax(window, strides, padding, dilation, x)
    result = np.zeros(places.shape, x.dtype)
    for place in np.ndindex(places.shape):
        result[place] = x[place[0], place[1]].ravel()[places[place]]
    return result


def _window_max_gradient(*arguments: Any) -> np.ndarray:
    *_, (height, width), dy, places = arguments
    result = np.zeros((*dy.shape[:2], height, width))
    for place in np.ndindex(dy.shape):
        result[(*place[:2], *divmod(int(places[place]), width))] += dy[place]
    return result


def _scatter_add(axis: int, size: int, updates: np.ndarray, indices: np.ndarray) -> np.ndarray:
    front, back = updates.shape[:axis], updates.shape[axis + indices.ndim :]
    result = np.zeros((*front, size, *back), np.float64 if updates.dtype.kind == "f" else updates.dtype)
    everywhere = (slice(None),) * axis
    for place in np.ndindex(indices.shape):
        if 0 <= indices[place] < size:
            result[(*everywhere, indices[place])] += updates[(*everywhere, *place)]
    return result


def _scatter_add_along(axis: int, size: int, updates: np.ndarray, indices: np.ndarray) -> np.ndarray:
    shape = (*updates.shape[:axis], size, *updates.shape[axis + 1 :])
    result = np.zeros(shape, np.float64 if updates.dtype.kind == "f" else updates.dtype)
    for place in np.ndindex(updates.shape):
        if 0 <= indices[place] < size:
            result[(*place[:axis], indices[place], *place[axis + 1 :])] += updates[place]
    return result


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return np.power(a.astype(np.float64), b)
    width = 8 * a.dtype.itemsize
    exact = [
        int(x) ** int(y) if y >= 0 else (0 if abs(int(x)) != 1 else int(x) ** -int(y))
        for x, y in zip(a.ravel(), b.ravel(), strict=True)
    ]
    wrapped = [value % 2**width for value in exact]
    return np.array(wrapped, f"u{a.dtype.itemsize}").view(a.dtype).reshape(a.shape)


def _cast(dtype: Any, x: np.ndarray) -> np.ndarray:
    if dtype.is_integer and x.dtype.kind == "f":
        limits = np.iinfo(dtype.storage)
        exact = [0 if v != v else int(min(max(v, limits.min), limits.max)) for v in x.astype(object).ravel()]
        return np.array(exact, object).astype(dtype.storage).reshape(x.shape)
    if dtype.is_half:
        return x.astype(np.float32)
    return x.astype(dtype.storage)


_PLAIN: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("negative", "abs", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh")},
    **{name: getattr(np, name) for name in ("floor", "ceil", "trunc", "isfinite", "isnan", "isinf", "logical_not")},
    **{name: getattr(np, name) for name in ("sign", "exp", "add", "subtract", "multiply", "divide", "maximum")},
    **{name: getattr(np, name) for name in ("minimum", "equal", "not_equal", "less", "less_equal", "logical_and")},
    **{name: getattr(np, name) for name in ("logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")},
    **{name: getattr(np, name) for name in ("floor_divide", "remainder", "where")},
    "round": np.round,
    "atan2": np.arctan2,
    "copysign": lambda a, b: np.where(np.signbit(b), -np.abs(a), np.abs(a)),
    "nextafter": np.nextafter,
    "complex": lambda x, y: np.stack([x, y], -1).view(np.complex64 if x.dtype == np.float32 else np.complex128)[..., 0],
    "real": lambda z: np.array([complex(each).real for each in z.flat]).reshape(z.shape),
    "imag": lambda z: np.array([complex(each).imag for each in z.flat]).reshape(z.shape),
    "bitwise_invert": np.bitwise_not,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "shift_right_logical": lambda a, b: (a.view(f"u{a.itemsize}") >> b.astype(f"u{a.itemsize}")).view(a.dtype),
    "power": _power,
    "erf": scipy.special.erf,
    "logistic": scipy.special.expit,
    "cast": _cast,
    "barrier": lambda tag, x: x,
    "stop_gradient": lambda x: x,
    "anchor": lambda x, origin: x,
    "constant": lambda value, dtype: rounded(np.asarray(value), dtype),
    "iota": lambda shape, axis, dtype: np.indices(shape)[axis],
    "reshape": lambda shape, x: np.array([*x.flat], x.dtype).reshape(shape),
    "permute": lambda axes, x: np.einsum(x, list(range(x.ndim)), list(axes)),
    "expand": lambda shape, x: x + np.zeros(shape, x.dtype),
    "pad": _pad,
    "slice": lambda start, stop, step, x: x[tuple(map(slice, start, stop, step))],
    "flip": lambda axes, x: x[tuple(slice(None, None, -1 if axis in axes else 1) for axis in range(x.ndim))],
    "concatenate": lambda axis, *parts: np.concatenate(parts, axis=axis),
    "reduce_sum": _reduced(np.add.reduce),
    "reduce_prod": _reduced(np.multiply.reduce),
    "reduce_mean": lambda axes, x: np.add.reduce(x.astype(np.float64), axes) / _count(x, axes),
    "reduce_deviations": lambda axes, x: np.var(x.astype(np.float64), axis=axes) * _count(x, axes),
    "reduce_max": _reduced(np.maximum.reduce),
    "reduce_min": _reduced(np.minimum.reduce),
    "argmax": lambda axis, x: np.apply_along_axis(lambda row: int(np.flatnonzero(_wins(row, max))[0]), axis, x),
    "argmin": lambda axis, x: np.apply_along_axis(lambda row: int(np.flatnonzero(_wins(row, min))[0]), axis, x),
    "cumulative_sum": lambda axis, x: np.add.accumulate(x.astype(np.float64) if x.dtype.kind == "f" else x, axis),
    "matmul": lambda precision, a, b: np.einsum(
        "...mk,...kn->...mn", *(_wide(x) for x in _to_precision(precision, a, b))
    ),
    "convolution": _convolution,
    "convolution_input_gradient": _input_gradient,
    "convolution_weight_gradient": _weight_gradient,
    "window_argmax": _window_argmax,
    "window_max": _window_max,
    "window_max_gradient": _window_max_gradient,
    "resample": lambda rows, columns, x: np.einsum("ph,nchw,qw->ncpq", _matrix(rows), _wide(x), _matrix(columns)),
    "gather": lambda axis, x, indices: np.take(x, np.clip(indices, 0, x.shape[axis] - 1), axis),
    "scatter_add": _scatter_add,
    "take_along": lambda axis, x, i: np.take_along_axis(x, np.clip(i, 0, x.shape[axis] - 1), axis),
    "scatter_add_along": _scatter_add_along,
    "argsort": lambda axis, descending, x: (
        np.apply_along_axis(
            lambda row: sorted(range(len(row)), key=lambda place: _rank(row[place], descending)), axis, x
        )
        if x.size
        else np.zeros(x.shape, np.int64)
    ),
    "gather_sum": lambda table, indices, weights: sum(
        weights[..., tap, None].astype(np.float64)
        * np.take_along_axis(table, np.clip(indices[..., tap, None], 0, table.shape[1] - 1), 1)
        for tap in range(indices.shape[2])
    ),
    "sort": lambda axis, descending, x: (
        np.apply_along_axis(
            lambda row: sorted(row.tolist(), key=lambda value: _rank_of_signs(value, descending)), axis, x
        ).astype(x.dtype)
        if x.size
        else x
    ),
    "top_k": lambda axis, count, descending, x: np.take(_PLAIN["argsort"](axis, descending, x), range(count), axis),
    "windows": lambda axis, size, stride, spacing, x: np.moveaxis(
        np.lib.stride_tricks.sliding_window_view(x, spacing * (size - 1) + 1, axis)[..., ::spacing], -1, axis + 1
    )[(slice(None),) * axis + (slice(None, None, stride),)],
    "cumulative_prod": lambda axis, x: np.multiply.accumulate(x.astype(np.float64) if x.dtype.kind == "f" else x, axis),
    "scatter_prod_along": lambda axis, size, u, i: _scattered(np.multiply, 1, axis, size, u, i),
    "scatter_max_along": lambda axis, size, u, i: _scattered(np.maximum, -np.inf, axis, size, u, i),
    "scatter_min_along": lambda axis, size, u, i: _scattered(np.minimum, np.inf, axis, size, u, i),
    "suppress": lambda overlaps: _each_matrix(_staying, overlaps),
}
_ELSEWHERE = {"buffer": "the leaf", "random_bits": "test_philox.py, published vectors"}


def _scattered(
    combine: Any, first: float, axis: int, size: int, updates: np.ndarray, indices: np.ndarray
) -> np.ndarray:
    shape = (*updates.shape[:axis], size, *updates.shape[axis + 1 :])
    if updates.dtype.kind == "f":
        result = np.full(shape, first, np.float64)
    else:
        limits = np.iinfo(updates.dtype)
        result = np.full(shape, min(max(first, limits.min), limits.max), updates.dtype)
    for place in np.ndindex(updates.shape):
        if 0 <= indices[place] < size:
            target = (*place[:axis], indices[place], *place[axis + 1 :])
            result[target] = combine(result[target], updates[place])
    return result


def _rank_of_signs(value: Any, descending: bool) -> tuple[Any, ...]:
    """As `_rank`, with -0 before 0."""
    is_plus = not np.signbit(value) if isinstance(value, float) else True
    return (*_rank(value, descending), is_plus is not descending)


def _rank(value: Any, descending: bool) -> tuple[bool, float]:
    """What Python sorts by, which is stable too: NaN as one that is greater than any number."""
    missing = bool(np.isnan(value))
    number = 0.0 if missing else float(value)
    return (not missing, -number) if descending else (missing, number)


def _staying(overlaps: np.ndarray) -> np.ndarray:
    stay: list[int] = []
    for candidate in range(len(overlaps)):
        if not any(overlaps[earlier, candidate] for earlier in stay):
            stay.append(candidate)
    return np.isin(np.arange(len(overlaps)), stay)


def _each_matrix(function: Callable[[np.ndarray], np.ndarray], matrices: np.ndarray) -> np.ndarray:
    result = np.zeros(matrices.shape[:-1], bool)
    for place in np.ndindex(matrices.shape[:-2]):
        result[place] = function(matrices[place])
    return result


def _wins(row: np.ndarray, best: Callable[..., Any]) -> np.ndarray:
    return np.isnan(row) if np.isnan(row).any() else row == best(row)


def _matrix(band: Any) -> np.ndarray:
    extent, runs = band
    matrix = np.zeros((len(runs), extent))
    for place, (start, weights) in enumerate(runs):
        matrix[place, start : start + len(weights)] = weights
    return matrix


def _count(x: np.ndarray, axes: tuple[int, ...]) -> int:
    return int(np.prod([x.shape[axis] for axis in axes]))


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def test_every_primitive_is_compared() -> None:
    assert set(TABLE) == set(_PLAIN) | set(_ELSEWHERE)


def _is_quick(sample: Sample) -> bool:
    """The adjoints by columns are slow: small ones say as much."""
    slow = sample.name in ("convolution_input_gradient", "convolution_weight_gradient")
    return not slow or max(array.values.size for array in sample.inputs) < 300


@pytest.mark.parametrize("name", sorted(_PLAIN))
@QUICK
@given(data=st.data())
def test_reference_equals_plain_numpy(name: str, data: st.DataObject) -> None:
    sample = data.draw(samples(name).filter(_is_quick))
    node = sample.node()
    (value,) = evaluate([node])
    with np.errstate(all="ignore"):
        expected = np.asarray(_PLAIN[name](*sample.attributes, *sample.arrays()))
    assert value.shape == node.shape == expected.shape
    if not node.dtype.is_float:
        np.testing.assert_array_equal(value, expected.astype(node.dtype.storage))
        return
    expected = rounded(expected, node.dtype)
    # sums in another order and functions of another library differ in the last places
    epsilon = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-22, "float64": 2.0**-44}[node.dtype.name]
    finite = np.abs(expected[np.isfinite(expected)])
    size = finite.max(initial=1e-3) if node.operation.family in ("reduction", "contraction", "index") else 1e-3
    np.testing.assert_allclose(value, expected, rtol=epsilon, atol=epsilon * size, equal_nan=True)

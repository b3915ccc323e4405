"""Functions of the array API standard against NumPy's of the same meaning, on random shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from trainer import TrainerError, engine
from trainer.engine import float32, float64, int32, int64

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

WIDTHS = ((1, 0), (0, 2), (0, 0))
shapes = nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def values(shape: tuple[int, ...], dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * 4).astype(dtype)


def same(found: engine.Tensor, expected: Any, tolerance: float = 1e-12) -> None:
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype.name == expected.dtype.name
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


@QUICK
@given(nps.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4, min_side=0))
def test_operands_broadcast(shapes: Any) -> None:
    a, b = (values(shape, seed=seed) for seed, shape in enumerate(shapes.input_shapes))
    same(engine.asarray(a) - engine.asarray(b), a - b)
    chosen = values(shapes.input_shapes[0]) > 0
    same(engine.where(chosen, a, b), np.where(chosen, a, b))
    same(engine.where(chosen, engine.asarray(b), 1.0), np.where(chosen, b, 1.0))


@QUICK
@given(st.data())
def test_basic_indexing(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    key = data.draw(nps.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    x = values(shape)
    same(engine.asarray(x)[key], x[key])


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min", "all", "any"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (), [1]])
def test_reductions(name: str, keepdims: bool, axis: Any) -> None:
    x = np.round(values((3, 4, 2)))
    expected = getattr(np, name)(x, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
    same(getattr(engine, name)(engine.asarray(x), axis=axis, keepdims=keepdims), expected)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_positions(name: str, axis: Any, keepdims: bool) -> None:
    x = np.round(values((3, 4, 2)) / 4)
    same(
        getattr(engine, name)(engine.asarray(x), axis=axis, keepdims=keepdims),
        getattr(np, name)(x, axis, keepdims=keepdims),
    )


def test_sums_of_small_integers_and_bools_are_int64() -> None:
    assert engine.sum(engine.asarray(np.full(300, 200, np.uint8))).item() == 60000
    assert engine.sum(engine.asarray([True, True, False])).dtype is int64
    assert engine.prod(engine.asarray(np.full(3, 100000, np.int32))).item() == 10**15


def test_sums_over_nothing() -> None:
    x = engine.zeros((0, 3))
    assert engine.sum(x, axis=0).numpy().tolist() == [0, 0, 0]
    assert engine.prod(x, axis=0).numpy().tolist() == [1, 1, 1]
    assert engine.all(x).item() is True and engine.any(x).item() is False
    assert np.isnan(engine.mean(x, axis=0).numpy()).all()


def test_variance_is_exact_where_the_mean_is_large() -> None:
    x = (1000 + values((4, 256))).astype(np.float32)
    same(
        engine.var(engine.asarray(x), axis=1, correction=1),
        x.astype(np.float64).var(axis=1, ddof=1).astype(np.float32),
        1e-5,
    )


def test_bfloat16_means_are_summed_in_float32() -> None:
    x = engine.ones((1000,), dtype=engine.bfloat16)
    assert engine.mean(x).item() == 1.0
    assert engine.mean(x).dtype is engine.bfloat16


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (lambda x: engine.reshape(x, (-1, 4)), lambda x: x.reshape(-1, 4)),
        (lambda x: x.reshape(4, 6), lambda x: x.reshape(4, 6)),
        (lambda x: engine.permute_dims(x, (2, 0, -2)), lambda x: x.transpose(2, 0, 1)),
        (lambda x: engine.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
        (lambda x: engine.moveaxis(x, (0, 1), (2, 0)), lambda x: np.moveaxis(x, (0, 1), (2, 0))),
        (lambda x: engine.expand_dims(x, axis=(0, -1)), lambda x: np.expand_dims(x, (0, -1))),
        (lambda x: engine.squeeze(engine.expand_dims(x, axis=2), axis=2), lambda x: x),
        (lambda x: engine.broadcast_to(x, (5, 2, 3, 4)), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
        (lambda x: engine.flip(x, axis=(0, -1)), lambda x: np.flip(x, (0, -1))),
        (lambda x: engine.roll(x, (1, -5), axis=(0, 2)), lambda x: np.roll(x, (1, -5), (0, 2))),
        (lambda x: engine.roll(x, 7), lambda x: np.roll(x, 7)),
        (lambda x: engine.concat([x, x[:, :1]], axis=1), lambda x: np.concatenate([x, x[:, :1]], 1)),
        (lambda x: engine.concat([x, x], axis=None), lambda x: np.concatenate([x, x], None)),
        (lambda x: engine.stack([x, -x], axis=-1), lambda x: np.stack([x, -x], -1)),
        (lambda x: engine.stack(engine.unstack(x, axis=1)), lambda x: np.stack([x[:, i] for i in range(3)])),
        (lambda x: engine.repeat(x, 3, axis=1), lambda x: np.repeat(x, 3, 1)),
        (lambda x: engine.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
        (lambda x: engine.pad(x, WIDTHS, value=7), lambda x: np.pad(x, WIDTHS, constant_values=7)),
        (lambda x: engine.tril(x, k=1), lambda x: np.tril(x, 1)),
        (lambda x: engine.triu(x, k=-1), lambda x: np.triu(x, -1)),
        (lambda x: engine.clip(x, -1, 2), lambda x: np.clip(x, -1, 2)),
        (lambda x: engine.cumulative_sum(x, axis=1), lambda x: np.cumulative_sum(x, axis=1)),
        (
            lambda x: engine.cumulative_sum(x, axis=0, include_initial=True),
            lambda x: np.cumulative_sum(x, axis=0, include_initial=True),
        ),
        (lambda x: engine.take(x, engine.asarray([[2, 0], [1, 1]]), axis=1), lambda x: np.take(x, [[2, 0], [1, 1]], 1)),
        (
            lambda x: engine.take_along_axis(x, engine.asarray([[[1], [0], [2]]]), axis=2),
            lambda x: np.take_along_axis(x, np.array([[[1], [0], [2]]]), 2),
        ),
        (lambda x: x.mT, lambda x: np.swapaxes(x, 1, 2)),
        (lambda x: x[0].T, lambda x: x[0].T),
        (lambda x: x @ x.mT, lambda x: x @ np.swapaxes(x, 1, 2)),
        (lambda x: x @ engine.asarray(np.ones((4, 5))), lambda x: x @ np.ones((4, 5))),
        (lambda x: x @ engine.asarray(np.ones(4)), lambda x: x @ np.ones(4)),
        (lambda x: engine.asarray(np.ones(3)) @ x, lambda x: np.ones(3) @ x),
        (
            lambda x: engine.tensordot(x, engine.permute_dims(x, (1, 2, 0)), axes=2),
            lambda x: np.tensordot(x, x.transpose(1, 2, 0), 2),
        ),
        (lambda x: engine.tensordot(x, x, axes=((0, 2), (0, 2))), lambda x: np.tensordot(x, x, ((0, 2), (0, 2)))),
        (lambda x: engine.vecdot(x, x, axis=1), lambda x: (x * x).sum(1)),
        (lambda x: abs(x) ** 0.5, lambda x: abs(x) ** 0.5),
        (lambda x: x**3 - 2 // x + 5 % x, lambda x: x**3 - 2 // x + 5 % x),
        (lambda x: abs(x) ** 1.7, lambda x: abs(x) ** 1.7),
        (lambda x: 2.0**x, lambda x: 2.0**x),
        (lambda x: engine.reciprocal(x) + engine.square(x), lambda x: 1 / x + x * x),
    ],
)
def test_compositions(function: Callable[..., Any], reference: Callable[..., Any]) -> None:
    x = values((2, 3, 4))
    same(function(engine.asarray(x)), reference(x))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: engine.arange(5), np.arange(5)),
        (lambda: engine.arange(2, 11, 3), np.arange(2, 11, 3)),
        (lambda: engine.arange(5, 0, -2), np.arange(5, 0, -2)),
        (lambda: engine.arange(0.0, 1.0, 0.25), np.arange(0, 1, 0.25, np.float32)),
        (lambda: engine.arange(3, dtype=float64), np.arange(3, dtype=np.float64)),
        (lambda: engine.linspace(0, 1, 7, dtype=float64), np.linspace(0, 1, 7)),
        (lambda: engine.linspace(0, 1, 4, endpoint=False, dtype=float64), np.linspace(0, 1, 4, endpoint=False)),
        (lambda: engine.linspace(3, 3, 1), np.linspace(3, 3, 1, dtype=np.float32)),
        (lambda: engine.eye(3, 4, k=1), np.eye(3, 4, k=1, dtype=np.float32)),
        (lambda: engine.full((2, 2), 7), np.full((2, 2), 7)),
        (lambda: engine.full(3, engine.asarray(2.5)), np.full(3, 2.5, np.float32)),
        (lambda: engine.zeros_like(engine.asarray([1, 2])), np.zeros(2, np.int64)),
        (lambda: engine.ones(2, dtype=int32), np.ones(2, np.int32)),
        (lambda: engine.one_hot(engine.asarray([2, 0]), 3), np.eye(3, dtype=np.float32)[[2, 0]]),
    ],
)
def test_creation(found: Callable[[], engine.Tensor], expected: np.ndarray) -> None:
    same(found(), expected)


def test_integers_pass_rounding_and_are_finite() -> None:
    x = engine.asarray([1, -2])
    assert engine.floor(x).dtype is int64
    assert engine.isfinite(x).numpy().all() and not engine.isnan(x).numpy().any()


def test_bitwise_operators_on_bools_are_logical() -> None:
    a, b = engine.asarray([True, True, False]), engine.asarray([True, False, False])
    assert (a & b).tolist() == [True, False, False]
    assert (a ^ b).tolist() == [False, True, False]
    assert (~a | b).tolist() == [True, False, True]
    assert (engine.asarray([6]) & 3).tolist() == [2]


def test_comparisons_and_their_reflections() -> None:
    x = engine.asarray([1.0, 2.0, 3.0])
    assert (x > 2).tolist() == [False, False, True] and (x >= 2).tolist() == [False, True, True]
    assert (x == np.float32([1, 0, 3])).tolist() == [True, False, True]
    assert (np.array([1, 0, 3], np.float32) != x).tolist() == [False, True, False]


def test_take_reads_the_nearest_where_an_index_is_out_of_range() -> None:
    x = engine.asarray([10.0, 20.0, 30.0])
    assert engine.take(x, engine.asarray([-5, 1, 9])).tolist() == [10.0, 20.0, 30.0]


def test_gradients_flow_through_compositions() -> None:
    x = engine.asarray(values((3, 4)))
    (found,) = engine.gradients(engine.sum(engine.var(x, axis=1)), [x])
    (second,) = engine.gradients(engine.sum(found * x), [x])
    distance = x.numpy() - x.numpy().mean(1, keepdims=True)
    same(found, 2 * distance / 4)
    same(second, 4 * distance / 4)


def test_float32_stays_float32() -> None:
    x = engine.asarray(values((2, 3), np.float32))
    assert engine.mean(engine.exp(x * 0.5) / 3).dtype is float32


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_bincount_counts_along_an_axis_what_is_in_range(device: str) -> None:
    random = np.random.default_rng(0)
    numbers, weights = random.integers(-1, 6, (3, 40)), random.random((3, 40))
    kept = [np.where((row >= 0) & (row < 5), row, 5) for row in numbers]
    with engine.device(device):
        counts = engine.bincount(numbers, length=5).numpy()
        weighted = engine.bincount(numbers.T.copy(), length=5, weights=weights.T.copy(), axis=0).numpy()
    assert np.array_equal(counts, [np.bincount(row, minlength=6)[:5] for row in kept])
    expected = [np.bincount(row, given, minlength=6)[:5] for row, given in zip(kept, weights, strict=True)]
    np.testing.assert_allclose(weighted.T, expected, rtol=1e-15)


def test_bincount_finds_its_length() -> None:
    numbers, weights = np.array([1, 4, 1]), np.array([0.5, 1.0, 2.0])
    for minlength in (0, 7):
        same(engine.bincount(numbers, minlength=minlength), np.bincount(numbers, minlength=minlength))
        same(engine.bincount(numbers, weights, minlength), np.bincount(numbers, weights, minlength))
        for dtype in (np.uint8, np.uint64):
            same(engine.bincount(numbers.astype(dtype), minlength=minlength), np.bincount(numbers, minlength=minlength))
    assert engine.bincount(np.zeros(0, np.uint8)).shape == engine.bincount([-3, -1]).shape == (0,)
    assert engine.bincount(np.zeros(0, np.int32)).shape == (0,)
    with pytest.raises(TrainerError, match="the length depends on the data"):
        engine.trace(engine.bincount)(numbers)


def test_a_number_is_formatted_as_one() -> None:
    assert f"{engine.asarray(2.5):.2f} {engine.asarray(3):d}" == "2.50 3"
    with pytest.raises(ValueError, match="format"):
        format(engine.ones(2), ".2f")


INDICES = [-1, -4, 0, 3, 2, -2, -5, -100, 4, 100]
NEAREST = [3, 0, 0, 3, 2, 2, 0, 0, 3, 3]  # of four elements


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", [int32, int64])
@pytest.mark.parametrize("traced", [False, True])
def test_negative_indices_count_from_the_end_and_gradients_go_where_values_were_read(
    device: str, dtype: engine.DType, traced: bool
) -> None:
    x, factors = values((3, 4)), values((3, 10), seed=1)

    def taken(x: engine.Tensor, places: engine.Tensor, factors: engine.Tensor) -> list[engine.Tensor]:
        rows = engine.expand_dims(places, axis=0)
        found = [engine.take(x, places, axis=1), engine.take_along_axis(x, rows, axis=1)]
        return [*found, *(engine.gradients(engine.sum(each * factors), [x])[0] for each in found)]

    expected = np.zeros_like(x)
    np.add.at(expected, (slice(None), NEAREST), factors)
    with engine.device(device):
        results = (engine.trace(taken) if traced else taken)(
            engine.asarray(x), engine.asarray(INDICES, dtype=dtype), engine.asarray(factors)
        )
        for found in results[:2]:
            same(found, x[:, NEAREST])
        for gradient in results[2:]:
            same(gradient, expected)


def test_indices_of_every_kind_count_alike() -> None:
    x = engine.asarray([10.0, 20.0, 30.0])
    assert engine.take([10.0, 20.0, 30.0], [-1]).tolist() == [30.0]
    assert engine.take(x, -1).item() == 30.0
    assert engine.take(x, np.array([-1, 1, -9])).tolist() == [30.0, 20.0, 10.0]
    assert engine.take(x, engine.asarray([0, 2, 255], dtype=engine.uint8)).tolist() == [10.0, 30.0, 30.0]
    assert engine.take(x, engine.asarray([-1, -3]) % 4).tolist() == [30.0, 20.0]
    assert engine.take(x, engine.asarray([-1, 9]) // 4).tolist() == [30.0, 30.0]
    assert engine.take(x, engine.asarray([], dtype=int64)).tolist() == []
    with pytest.raises(TrainerError, match="nothing to read"):
        engine.take(engine.zeros((0,)), [-1])


def test_indices_that_are_in_range_by_construction_are_read_as_they_are() -> None:
    x = engine.asarray(values((4, 6)))
    order = engine.argsort(x, axis=1)
    computed = [order, order[:, ::2].astype(int32), order // 2, engine.flip(order % 5, axis=1)]
    found = [engine.take_along_axis(x, places, axis=1) for places in computed]
    assert all(taken.node.inputs[1] is places.node for taken, places in zip(found, computed, strict=True))
    for taken, places in zip(found, computed, strict=True):
        same(taken, np.take_along_axis(x.numpy(), places.numpy(), 1))
    rows = engine.take(x, [3, 0], axis=0)
    assert rows.node.inputs[1].name == "buffer"


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_one_hot_of_bytes_with_more_classes_than_bytes(device: str) -> None:
    with engine.device(device):
        found = engine.one_hot(np.array([0, 44, 255], np.uint8), 300).numpy()
    np.testing.assert_array_equal(found, np.eye(300, dtype=np.float32)[[0, 44, 255]])


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axis"), [((5,), ()), ((5, 1), 1), ((1, 5), (0,)), ((5, 1, 1), (1, 2))])
def test_the_variance_of_single_elements_is_zero_or_nan(device: str, dtype: Any, shape: Any, axis: Any) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, 3.0], dtype).reshape(shape)
    with np.errstate(all="ignore"), engine.device(device):
        expected = np.var(x, axis=axis)
        for function in (engine.var, engine.std, lambda x, axis: engine.moments(x, axis=axis)[1]):
            same(function(engine.asarray(x), axis=axis), expected)
        same(engine.trace(lambda x: engine.var(x, axis=axis))(engine.asarray(x)), expected)
    if axis == ():
        same(engine.moments(x, axis=axis)[0], x)
        (gradient,) = engine.gradients(engine.sum(engine.var(tensor := engine.asarray(x[3:]), axis=axis)), [tensor])
        same(gradient, np.zeros(2, dtype))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize(
    ("first", "second", "axis"),
    [((3,), (3,), -1), ((2, 3), (4, 1, 3), -1), ((3, 2), (3, 1), 0), ((3, 2, 4), (3,), 0), ((4, 3, 2), (3, 1), -2)],
)
def test_vecdot_is_of_the_dtype_and_axis_of_its_operands(dtype: Any, first: Any, second: Any, axis: int) -> None:
    a, b = (np.abs(np.round(values(shape, seed=seed) * 50)).astype(dtype) for seed, shape in enumerate((first, second)))
    same(engine.vecdot(engine.asarray(a), engine.asarray(b), axis=axis), np.vecdot(a, b, axis=axis))


def test_vecdot_wraps_promotes_and_refuses_other_extents() -> None:
    large = engine.asarray(np.full(3, 2**30, np.int32))
    assert engine.vecdot(large, large).dtype is int32
    assert engine.vecdot(large, large.astype(int64)).item() == 3 * 2**60
    with pytest.raises(TrainerError, match="vecdot: shapes don't fit"):
        engine.vecdot(engine.ones((2, 1)), engine.ones((2, 3)))


@pytest.mark.parametrize("k", [-(2**70), -(2**63), -4, -3, 0, 2, 4, 5, 2**63 - 1, 2**70])
def test_diagonals_may_be_any_whole_number(k: int) -> None:
    x, near = values((3, 4)), max(-9, min(k, 9))
    same(engine.tril(x, k=k), np.tril(x, near))
    same(engine.triu(x, k=k), np.triu(x, near))
    same(engine.eye(3, 4, k=k), np.eye(3, 4, near, np.float32))
    with pytest.raises(TrainerError, match="must be an integer"):
        engine.tril(x, k=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_bools_are_ordered(device: str) -> None:
    x = values((3, 4)) > 1
    x[1] = False
    x[2] = True
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    with engine.device(device):
        for axis in (None, 0, 1):
            for name in ("max", "min", "argmax", "argmin"):
                expected = getattr(np, name)(x, axis=axis)
                same(getattr(engine, name)(x, axis=axis), expected)
                same(engine.trace(lambda x, name=name, axis=axis: getattr(engine, name)(x, axis=axis))(x), expected)
        same(engine.max(x, axis=(), keepdims=True), x)
        for name in ("maximum", "minimum"):
            same(getattr(engine, name)(a, b), getattr(np, name)(a, b))
        same(engine.clip(engine.asarray(a), b, True), np.clip(a, b, True))
        same(engine.sort(x, axis=1), np.sort(x, axis=1))
        same(engine.argsort(x, axis=1), np.argsort(x, axis=1, kind="stable"))
        same(engine.cumulative_sum(x, axis=0), np.cumsum(x, axis=0))

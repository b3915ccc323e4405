"""Sorting, searching, sets and quantiles against NumPy; the kernels are tested in targets/kernels/test_sort.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from tests.engine.numbers import numbers
from trainer import TrainerError, engine


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sorted_elements_gradients_go_back_to_their_places(axis: int, descending: bool) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6, 5))
    check_derivatives(lambda t: engine.sort(t, axis=axis, descending=descending), x)


def test_gradients_of_the_greatest_go_to_them() -> None:
    check_derivatives(lambda x: engine.top_k(x, 3, axis=0)[0], np.random.default_rng(0).normal(size=(9, 4)))


def test_what_can_not_be_sorted_or_selected_is_refused() -> None:
    with pytest.raises(TrainerError, match="wrong number"):
        engine.top_k(np.zeros((2, 3)), 4)
    with pytest.raises(TrainerError, match="square"):
        engine.suppress(np.zeros((2, 3), bool))
    with pytest.raises(TrainerError, match="no such axis"):
        engine.sort(np.zeros(3), axis=1)


# --- searching and sets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 64, 100])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_places_in_a_sorted_row(count: int, side: str, dtype: str) -> None:
    table, values = np.sort(numbers(dtype, count)), numbers(dtype, 4, 9, seed=1)
    np.testing.assert_array_equal(
        engine.searchsorted(table, values, side=side).numpy(), np.searchsorted(table, values, side)
    )


def test_places_in_a_row_that_a_sorter_sorts() -> None:
    table, values = np.array([3.0, 1.0, 2.0]), np.array([[2.5, 0.0]])
    sorter = np.argsort(table)
    np.testing.assert_array_equal(
        engine.searchsorted(table, values, sorter=sorter).numpy(), np.searchsorted(table, values, sorter=sorter)
    )
    with pytest.raises(TrainerError, match="x1 has the wrong rank, or `side` is unknown"):
        engine.searchsorted(np.zeros((2, 2)), values)


def test_the_place_of_a_number() -> None:
    assert engine.searchsorted(engine.asarray([1, 3, 5], dtype=engine.uint8), 4).item() == 2
    assert engine.searchsorted(engine.asarray([1.0, 3.0]), 3, side="right").item() == 2


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_members_of_a_set(dtype: str, count: int) -> None:
    if dtype == "complex64":
        x, others = (numbers("float32", *shape).view(np.complex64)[..., 0] for shape in ((4, 9, 2), (count, 2)))
    else:
        x, others = numbers(dtype, 4, 9), numbers(dtype, count, seed=1)
    for invert in (False, True):
        found = engine.isin(x, others.reshape(-1, 1), invert=invert)
        np.testing.assert_array_equal(found.numpy(), np.isin(x, others, invert=invert))


def test_numbers_among_members() -> None:
    assert engine.isin(engine.asarray([1, 2]), 2).tolist() == [False, True]
    assert engine.isin(2, engine.asarray([1, 2])).item() is True


@pytest.mark.parametrize(
    "x",
    [
        numbers("int64", 4, 9),
        numbers("uint8", 0),
        np.array([5.0]),
        numbers("bool", 12),
        np.array([2, 1j, 1j, 1, 2 + 1j]),
    ],
)
def test_sets_equal_numpys(x: np.ndarray) -> None:
    values, indices, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    found = engine.unique_all(x)
    np.testing.assert_array_equal(engine.unique_values(x).numpy(), values)
    for own, expected in zip(found, (values, indices, inverse.reshape(x.shape), counts), strict=True):
        np.testing.assert_array_equal(own.numpy(), expected)
    np.testing.assert_array_equal(engine.unique_counts(x).counts.numpy(), counts)
    np.testing.assert_array_equal(engine.unique_inverse(x).inverse_indices.numpy(), inverse.reshape(x.shape))


def test_each_nan_is_an_element_of_its_own_and_zeros_are_one() -> None:
    found = engine.unique_counts(np.array([np.nan, 0.0, -0.0, np.nan]))
    assert found.counts.numpy().tolist() == [2, 1, 1]
    assert np.isnan(found.values.numpy()).tolist() == [False, True, True]


def test_sets_inside_a_traced_step_are_refused_with_the_alternative() -> None:
    with pytest.raises(TrainerError, match="outside of the step"):
        engine.trace(engine.unique_values)(np.array([1.0, 2.0]))


# --- median and quantiles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, (0, 2), -1])
def test_the_median(axis: Any, keepdims: bool) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    x[1, 2, 3] = np.nan
    found = engine.median(x, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(found.numpy(), np.median(x, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(method: Any) -> None:
    x, shares = np.random.default_rng(0).normal(size=(6, 7)), [0.0, 0.1, 0.5, 0.77, 1.0]
    found = engine.quantile(x, shares, axis=1, method=method)
    np.testing.assert_allclose(found.numpy(), np.quantile(x, shares, axis=1, method=method))
    np.testing.assert_allclose(engine.quantile(x, 0.3, method=method).numpy(), np.quantile(x, 0.3, method=method))


def test_gradients_of_a_quantile_go_to_its_neighbors() -> None:
    check_derivatives(lambda x: engine.quantile(x, [0.3, 0.8], axis=0), np.random.default_rng(0).normal(size=(6, 2)))


@pytest.mark.parametrize(("q", "method"), [(1.5, "linear"), (-0.1, "linear"), (0.5, "cubic"), (float("nan"), "linear")])
def test_no_such_quantile(q: float, method: str) -> None:
    with pytest.raises(TrainerError, match="wrong quantile"):
        engine.quantile(np.zeros(3), q, method=method)


def test_a_median_of_nothing_or_of_whole_numbers_is_refused() -> None:
    for x in (np.zeros((0, 2)), np.zeros(3, np.int64)):
        with pytest.raises(TrainerError, match="of no numbers"):
            engine.median(x, axis=0)

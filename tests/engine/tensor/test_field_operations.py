"""Padding, windows, scattering, products and what else the field expects, against NumPy and plain loops in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from trainer import TrainerError, engine


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


# --- padding ----------------------------------------------------------------------------------------------------------

MODES = ("edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "median", "linear_ramp")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("widths", [((1, 2), (0, 0), (3, 0)), ((0, 7), (5, 4), (0, 1))])
def test_padding_in_every_mode_equals_numpys(mode: Any, widths: Any) -> None:
    x = normal(3, 2, 4)
    further = {"end_values": 1.5} if mode == "linear_ramp" else {}
    found = engine.pad(engine.asarray(x)[:, ::-1], widths, mode=mode, value=1.5)
    np.testing.assert_allclose(found.numpy(), np.pad(x[:, ::-1], widths, mode, **further), rtol=1e-12)


@pytest.mark.parametrize("value", [-0.0, 3.5, np.inf, np.nan])
def test_padding_with_any_value(value: float) -> None:
    x = normal(2, 3)
    found = engine.pad(x, ((1, 0), (0, 2)), value=value).numpy()
    expected = np.pad(x, ((1, 0), (0, 2)), constant_values=value)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("mode", ["constant", *MODES])
def test_derivatives_of_padding(mode: str) -> None:
    check_derivatives(lambda x: engine.pad(x, ((2, 1), (0, 3)), mode=mode, value=0.5), normal(4, 3))


def test_padding_that_can_not_be_is_refused() -> None:
    with pytest.raises(TrainerError, match="named 'edge' here"):
        engine.pad(np.zeros(3), [(1, 1)], mode="replicate")
    for problem, x, mode in (
        ("no such mode", np.zeros(3), "mirror"),
        ("no elements to pad", np.zeros(0), "edge"),
        ("of integers", np.zeros(3, np.int64), "mean"),
    ):
        with pytest.raises(TrainerError, match=problem):
            engine.pad(x, [(1, 1)], mode=mode)
    with pytest.raises(TrainerError, match="wrong amounts"):
        engine.pad(np.zeros(3), [(1, -1)], mode="edge")


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "stride", "dilation"), [(1, 1, 1), (3, 1, 1), (3, 2, 1), (2, 3, 4), (7, 1, 1)])
def test_windows_are_a_view_of_the_elements(size: int, stride: int, dilation: int) -> None:
    x = normal(2, 7, 3)
    found = engine.windows(engine.asarray(x)[::-1], size, axis=1, stride=stride, dilation=dilation)
    starts = range(0, 7 - dilation * (size - 1), stride)
    expected = np.stack([x[::-1, s : s + dilation * (size - 1) + 1 : dilation] for s in starts], 1)
    np.testing.assert_array_equal(found.numpy(), np.moveaxis(expected, 2, -1))


def test_windows_along_several_axes() -> None:
    x = normal(5, 6)
    found = engine.windows(x, (2, 3), axis=(0, 1), stride=(1, 2))
    np.testing.assert_array_equal(found.numpy(), np.lib.stride_tricks.sliding_window_view(x, (2, 3))[:, ::2])


def test_derivatives_of_windows() -> None:
    check_derivatives(lambda x: engine.windows(x, 3, axis=0, stride=2, dilation=2), normal(9, 2))


@pytest.mark.parametrize("arguments", [{"size": 0}, {"size": 5}, {"size": 2, "stride": 0}, {"size": 2, "dilation": 4}])
def test_no_such_windows(arguments: dict[str, int]) -> None:
    with pytest.raises(TrainerError, match="windows"):
        engine.windows(np.zeros(4), arguments.pop("size"), **arguments)


GEOMETRY = {"stride": (2, 1), "padding": ((1, 0), (2, 2)), "dilation": (1, 2)}


def test_columns_are_what_a_convolution_multiplies() -> None:
    x, w = normal(2, 3, 6, 7), normal(4, 3, 3, 2, seed=1)
    columns = engine.unfold(x, (3, 2), **GEOMETRY)
    expected = engine.convolution(x, w, **GEOMETRY).numpy()
    found = engine.reshape(engine.matmul(w.reshape(4, -1), columns), expected.shape)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)


def test_folding_is_the_transpose_of_unfolding() -> None:
    x = normal(2, 3, 6, 7)
    columns = engine.unfold(x, (3, 2), **GEOMETRY)
    y = normal(*columns.shape, seed=1)
    folded = engine.fold(y, (6, 7), (3, 2), **GEOMETRY)
    assert folded.shape == x.shape
    np.testing.assert_allclose(np.sum(folded.numpy() * x), np.sum(columns.numpy() * y), rtol=1e-12)
    check_derivatives(lambda t: engine.fold(engine.unfold(t, 2), (3, 4), 2), normal(1, 2, 3, 4))
    with pytest.raises(TrainerError, match="columns don't fit"):
        engine.fold(y[..., :-1], (6, 7), (3, 2), **GEOMETRY)


# --- scattering -------------------------------------------------------------------------------------------------------


def scattered(x: np.ndarray, places: np.ndarray, updates: np.ndarray, reduction: str, include_self: bool) -> np.ndarray:
    """Along the last axis, one row and one update after the other."""
    result = x.astype(np.float64)
    for row in np.ndindex(x.shape[:-1]):
        for place in range(x.shape[-1]):
            found = list(updates[row][places[row] % x.shape[-1] == place])
            if not found:
                continue
            terms = [x[(*row, place)], *found] if include_self else found
            combine = {"set": lambda t: t[-1], "add": sum, "multiply": np.prod, "mean": np.mean, "max": max, "min": min}
            result[(*row, place)] = combine[reduction](terms)
    return result


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduction", ["set", "add", "multiply", "mean", "max", "min"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8"])
def test_every_reduction_of_scatter(reduction: str, include_self: bool, dtype: str) -> None:
    if reduction == "mean" and "int" in dtype:
        return
    random = np.random.default_rng(0)
    x, updates = (random.integers(1, 4, (3, n)).astype(dtype) for n in (5, 8))
    places = random.integers(-5, 5, (3, 8))
    expected = scattered(x, places, updates, reduction, include_self).astype(dtype)
    found = engine.scatter(x, places, updates, reduction=reduction, include_self=include_self)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    moved = engine.scatter(x.T, places.T, updates.T, axis=0, reduction=reduction, include_self=include_self)
    np.testing.assert_allclose(moved.numpy(), expected.T, rtol=1e-6)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduction", ["set", "add", "multiply", "mean", "max", "min"])
def test_derivatives_of_scatter(reduction: str, include_self: bool) -> None:
    places = np.array([[0, 2, 2, 0, 1], [3, 3, 3, 1, 0]])
    options = {"reduction": reduction, "include_self": include_self}
    check_derivatives(lambda x, u: engine.scatter(x, places, u, **options), normal(2, 4), normal(2, 5, seed=1))


def test_derivatives_of_scattered_products_are_right_at_zeros() -> None:
    places = np.array([[0, 2, 2, 0, 2, 1], [3, 3, 3, 1, 3, 0]])
    x, updates = normal(2, 4), normal(2, 6, seed=1)
    updates[0, 0] = updates[0, 1] = updates[0, 4] = updates[1, 0] = updates[1, 1] = updates[1, 2] = 0.0
    check_derivatives(lambda x, u: engine.scatter(x, places, u, reduction="multiply"), x, updates)


def test_nan_wins_a_scattered_extremum() -> None:
    found = engine.scatter(np.zeros(2), [0, 0, 1], np.array([np.nan, 1.0, -np.inf]), reduction="max")
    np.testing.assert_array_equal(found.numpy(), [np.nan, 0.0])


def test_scattering_that_can_not_be_is_refused() -> None:
    x, updates = np.zeros((2, 3)), np.zeros((2, 2))
    for problem, places, options in (
        ("unknown reduction", [[0, 1]] * 2, {"reduction": "median"}),
        ("shapes don't fit", [[0, 1]], {}),
        ("integers", np.zeros((2, 2)), {}),
    ):
        with pytest.raises(TrainerError, match=problem):
            engine.scatter(x, places, updates, **options)


def test_sums_of_segments() -> None:
    x, segments = normal(6, 2), np.array([2, 0, 2, 5, 0, -1])
    expected = np.zeros((4, 2))
    for row, segment in zip(x, segments, strict=True):
        if 0 <= segment < 4:
            expected[segment] += row
    np.testing.assert_allclose(engine.segment_sum(x, segments, 4).numpy(), expected)
    check_derivatives(lambda t: engine.segment_sum(t, np.array([1, 0, 1]), 2), normal(3, 2))
    with pytest.raises(TrainerError, match="a segment for each slice"):
        engine.segment_sum(x, segments[:2], 4)


# --- products and parts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cumulative_products(axis: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (3, 20, 2)).astype(dtype)
    found = engine.cumulative_prod(engine.asarray(x)[::-1], axis=axis, include_initial=True)
    expected = np.cumprod(x[::-1], axis, dtype=None if "float" in dtype else np.int64)
    first = np.ones([1 if each == axis else extent for each, extent in enumerate(x.shape)])
    np.testing.assert_array_equal(found.numpy(), np.concatenate([first, expected], axis))


def test_derivatives_of_cumulative_products_are_right_at_zeros() -> None:
    x = normal(2, 7)
    x[0, 2] = x[1, 0] = x[1, 4] = 0.0
    check_derivatives(lambda t: engine.cumulative_prod(t, axis=1), x)
    check_derivatives(lambda t: engine.cumulative_prod(t, axis=0), x)


def test_parts_of_given_sizes() -> None:
    x = normal(2, 7)
    for found, expected in (
        (engine.split(x, [2, 0, 5], axis=1), np.split(x, [2, 2], 1)),
        (engine.split(x, 3, axis=-1), np.split(x, [3, 6], 1)),
    ):
        for own, part in zip(found, expected, strict=True):
            np.testing.assert_array_equal(own.numpy(), part)
    for sizes in ([2, 2], [-1, 8], 0):
        with pytest.raises(TrainerError, match="sizes don't fit"):
            engine.split(x, sizes, axis=1)


def test_an_ignored_class_and_labels_out_of_range_have_no_one() -> None:
    found = engine.one_hot(np.array([0, 1, 2, -1, 7]), 3, ignore_index=1)
    np.testing.assert_array_equal(found.numpy(), [[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]])


# --- einsum -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("ij,jk", ((2, 3), (3, 4))),
        ("ij,kj->ki", ((2, 3), (4, 3))),
        ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
        ("bqhd,bkhd->bhqk", ((2, 3, 2, 4), (2, 5, 2, 4))),
        ("i,j->ij", ((2,), (3,))),
        ("bi,bi->b", ((2, 3), (2, 3))),
        ("ii->i", ((3, 3),)),
        ("ii", ((3, 3),)),
        ("iji->ij", ((3, 2, 3),)),
        ("ijk->kij", ((2, 3, 4),)),
        ("ijk->j", ((2, 3, 4),)),
        ("ij->", ((2, 3),)),
        ("ij,j,k->i", ((2, 3), (3,), (4,))),
        ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
        ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))),
        ("i...,i...->...", ((3, 2, 4), (3, 1, 4))),
        ("b...,c", ((2, 3), (4,))),
        ("ij,ij->ij", ((2, 3), (2, 1))),
        ("ij,kj->ik", ((0, 3), (4, 3))),
        ("ij,jk->ik", ((2, 0), (0, 4))),
    ],
)
def test_einsum_equals_numpys(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [normal(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    found = engine.einsum(subscripts, *arrays)
    expected = np.einsum(subscripts, *arrays)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)


def test_einsum_of_whole_numbers_wraps_as_products_do() -> None:
    a, b = (np.random.default_rng(seed).integers(-9, 9, (3, 3)).astype(np.int32) for seed in range(2))
    found = engine.einsum("ij,jk->ki", a, b)
    np.testing.assert_array_equal(found.numpy(), np.einsum("ij,jk->ki", a, b))
    assert found.dtype is engine.int32


def test_derivatives_of_einsum() -> None:
    check_derivatives(lambda a, b: engine.einsum("bij,bkj->kb", a, b), normal(2, 3, 4), normal(2, 5, 4, seed=1))


@pytest.mark.parametrize(
    ("subscripts", "problem"),
    [("ij,jk->ik", "extents differ"), ("ij->ij", "don't fit"), ("ij,kl->im", "no such result"), ("i1,kl", "don't fit"),
     ("ijk,kl", "don't fit"), ("ij,kl->ii", "no such result")],
)  # fmt: skip
def test_letters_that_do_not_fit_are_refused(subscripts: str, problem: str) -> None:
    with pytest.raises(TrainerError, match=problem):
        engine.einsum(subscripts, np.zeros((2, 3)), np.zeros((4, 5)))

"""Sorting kernels on rows of every length, dtype and stride, against Python's own sort and NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.numbers import numbers
from trainer import engine
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.kernels.sort import SortRows
from trainer.engine.targets.ir.sort_keys import Keys


@pytest.fixture(autouse=True)
def device(on_cpu: CpuDevice) -> CpuDevice:
    return on_cpu


FLOATS = ("float32", "float64", "float16")
LENGTHS = (1, 2, 63, 64, 65, 300, 4097)
"""Rows sorted by ranks up to 64, by digits of 8 bits up to 4,096, then of 11."""


def expected_order(x: np.ndarray, descending: bool) -> np.ndarray:
    """Of rows: as Python's sort has it, NaN as one that is greater than any number."""

    def rank(value: Any) -> tuple[bool, Any]:
        missing = bool(value != value)
        number = 0 if missing else value.item()
        return (not missing, -number) if descending else (missing, number)

    rows = [
        sorted(range(x.shape[-1]), key=lambda place, row=row: rank(row[place])) for row in x.reshape(-1, x.shape[-1])
    ]
    return np.array(rows).reshape(x.shape)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", *FLOATS])
@pytest.mark.parametrize("length", [64, 300])
def test_rows_of_every_dtype_are_sorted_stably(dtype: str, descending: bool, length: int) -> None:
    x = numbers(dtype, 3, length)
    order = expected_order(x, descending)
    np.testing.assert_array_equal(engine.argsort(x, descending=descending).numpy(), order)
    found = engine.sort(x, descending=descending).numpy()
    np.testing.assert_array_equal(found, np.take_along_axis(x, order, -1))
    assert found.dtype == x.dtype


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_every_length_are_sorted_along_any_axis_and_stride(length: int) -> None:
    x = numbers("float32", length, 2, 3, seed=length)
    order = np.moveaxis(expected_order(np.moveaxis(x, 0, -1), False), -1, 0)
    np.testing.assert_array_equal(engine.argsort(x, axis=0).numpy(), order)
    flipped = engine.flip(engine.asarray(x), axis=(0, 2))
    np.testing.assert_array_equal(
        engine.sort(flipped, axis=0).numpy(), np.take_along_axis(x[:, :, ::-1], order[:, :, ::-1], 0)
    )


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
def test_a_long_row_is_sorted_by_all_threads(dtype: str, descending: bool) -> None:
    x = numbers(dtype, 70_001)
    order = np.argsort(x, kind="stable")
    if descending:
        order = np.argsort(-np.unique(x, return_inverse=True)[1], kind="stable")
    np.testing.assert_array_equal(engine.argsort(x, descending=descending).numpy(), order)
    np.testing.assert_array_equal(engine.sort(x, descending=descending).numpy(), x[order])


@pytest.mark.full
def test_long_rows_along_a_strided_axis_and_rows_beyond_the_scratch_are_sorted() -> None:
    x = numbers("float64", 200_000, 2)
    order = np.argsort(x, axis=0, kind="stable")
    np.testing.assert_array_equal(engine.argsort(x, axis=0).numpy(), order)
    values, places = engine.top_k(engine.asarray(x), 40_000, axis=0, largest=False)
    np.testing.assert_array_equal(places.numpy(), order[:40_000])
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order[:40_000], 0))


def test_equal_digits_and_sorted_rows_need_no_special_care() -> None:
    for x in (np.zeros(500, np.int64), np.arange(500), np.arange(500)[::-1], np.repeat([7, 3], 250)):
        np.testing.assert_array_equal(engine.argsort(np.array(x)).numpy(), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_nothing_is_sorted_to_nothing(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    assert engine.sort(x).shape == engine.argsort(x).shape == shape


def test_minus_zero_comes_first_and_is_equal_for_indices() -> None:
    x = np.array([0.0, -0.0, 0.0, -0.0], np.float32)
    assert np.signbit(engine.sort(x).numpy()).tolist() == [True, True, False, False]
    assert engine.argsort(x).numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("length", "k"), [(7, 1), (7, 7), (300, 1), (300, 32), (300, 60), (1000, 8)])
def test_the_greatest_k_come_first_and_of_equals_the_first_ones(length: int, k: int, largest: bool) -> None:
    x = numbers("float32", 5, length, seed=k)
    values, places = engine.top_k(x, k, largest=largest)
    expected = expected_order(x, largest)[:, :k]
    np.testing.assert_array_equal(places.numpy(), expected)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, 1))


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_selection_takes_elements_that_come_last_of_all(dtype: str) -> None:
    """The padding behind a row has their key."""
    x = np.full((2, 301), np.iinfo(dtype).max, dtype)
    assert engine.top_k(x, 3, largest=False)[1].numpy().tolist() == [[0, 1, 2]] * 2


def test_few_of_many_are_selected_without_sorting() -> None:
    keys = Keys(engine.float32, True, False)
    kernels = [SortRows(keys, (1, 10_000), 1, True, (0, 1), (0, 1), count) for count in (8, 10_000)]
    assert [kernel.method for kernel in kernels] == ["selection", "radix"]


def test_subnormal_numbers_are_told_apart_in_traced_steps() -> None:
    """They are flushed by arithmetic there; sorting only looks at bits."""
    x = np.array([3e-45, 1e-45, -1e-45, 0.0, -0.0], np.float32)
    assert engine.trace(engine.argsort)(x).numpy().tolist() == [2, 3, 4, 1, 0]
    assert engine.trace(engine.sort)(x).numpy()[-1] > 0

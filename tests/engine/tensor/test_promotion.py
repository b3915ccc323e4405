"""Promotion of dtypes is NumPy's wherever the array API standard defines it, and an error elsewhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import bfloat16, bool_, float32, float64, int32, int64, uint8
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType

INTEGERS, FLOATS = (uint8, int32, int64), (float32, float64)


def ones(dtype: DType) -> engine.Tensor:
    return engine.ones((2,), dtype=dtype)


@pytest.mark.parametrize(
    ("a", "b"), [*itertools.product(INTEGERS, repeat=2), *itertools.product(FLOATS, repeat=2), (bool_, bool_)]
)
def test_dtypes_of_one_kind_meet_as_in_numpy(a: DType, b: DType) -> None:
    expected = np.result_type(a.storage, b.storage).name
    assert engine.result_type(a, b).name == expected
    assert engine.equal(ones(a), ones(b)).dtype is bool_
    if a is not bool_:
        assert (ones(a) + ones(b)).dtype.name == expected


@pytest.mark.parametrize("other", FLOATS)
def test_bfloat16_gives_way_to_wider_floats(other: DType) -> None:
    assert (ones(bfloat16) * ones(other)).dtype is other
    assert (ones(bfloat16) * ones(bfloat16)).dtype is bfloat16


@pytest.mark.parametrize(("a", "b"), [(float32, int32), (uint8, float64), (bool_, float32), (bool_, int64)])
def test_dtypes_of_different_kinds_do_not_mix(a: DType, b: DType) -> None:
    with pytest.raises(TrainerError, match="different kinds don't mix") as caught:
        ones(a) + ones(b)
    assert caught.value.found == f"{a} and {b}"
    assert "astype" in str(caught.value.hint)


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_python_numbers_take_the_dtype_of_the_array_beside_them(dtype: DType) -> None:
    value: bool | int | float = True if dtype is bool_ else 2.0 if dtype.is_float else 2
    assert engine.where(engine.asarray([True, False]), ones(dtype), value).dtype is dtype
    assert engine.where(engine.asarray([True, False]), value, ones(dtype)).dtype is dtype


def test_a_numpy_scalar_counts_as_a_python_number() -> None:
    assert (ones(float32) * np.float64(2.0)).dtype is float32
    assert (np.float64(2.0) * ones(float32)).dtype is float32
    assert (ones(int32) + np.int64(2)).dtype is int32


def test_a_numpy_array_counts_as_an_array() -> None:
    assert (ones(float32) + np.ones(2)).dtype is float64
    assert (np.ones(2) + ones(float32)).dtype is float64


@pytest.mark.parametrize(("dtype", "value"), [(int32, 0.5), (bool_, 1), (uint8, 1.0)])
def test_a_python_number_of_a_wider_kind_is_refused(dtype: DType, value: object) -> None:
    with pytest.raises(TrainerError, match="can't be combined with"):
        engine.equal(ones(dtype), value)


def test_a_python_number_out_of_range_is_refused() -> None:
    with pytest.raises(TrainerError, match="300 does not fit into uint8"):
        ones(uint8) + 300


@pytest.mark.parametrize(
    ("value", "expected"), [(True, bool_), (1, int64), (1.0, float32), ([1, 2], int64), ([0.5], float32)]
)
def test_python_values_alone_have_the_default_dtypes(value: object, expected: DType) -> None:
    assert engine.asarray(value).dtype is expected


def test_can_cast_is_what_promotion_does() -> None:
    assert engine.can_cast(uint8, int64) and engine.can_cast(bfloat16, float32)
    assert not engine.can_cast(int64, int32) and not engine.can_cast(int32, float64)

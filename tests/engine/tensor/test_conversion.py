"""Arrays, lists and numbers become tensors of a given dtype by the rules of `astype`, and never share memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import DType, State, bfloat16, bool_, float16, float32, float64, int32, int64, uint8

DTYPES = [bool_, uint8, int32, int64, bfloat16, float16, float32, float64]
ODD = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 254.5, 255.9, 256.0, -0.9, 300.7, 2**31 - 0.5, 2.0**31, -(2.0**31),
       2.0**63, -(2.0**63), 1e19, 1e300, -1e300, 65519.0, 65520.0, 1e-8, 5e-324, np.inf, -np.inf, np.nan]  # fmt: skip
WHOLE = [0, 1, -1, 127, 128, 255, 256, 300, -300, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)]

SOURCES = {
    "bool": np.array([True, False]),
    "uint8": np.arange(256, dtype=np.uint8),
    "int32": np.array([number for number in WHOLE if abs(number) < 2**31], np.int32),
    "int64": np.array(WHOLE, np.int64),
    "float16": np.array([number for number in ODD if not np.isfinite(number) or abs(number) < 65520], np.float16),
    "float32": np.array([number for number in ODD if not np.isfinite(number) or abs(number) < 1e38], np.float32),
    "float64": np.array(ODD),
}


def same(found: engine.Tensor, expected: engine.Tensor) -> None:
    assert found.dtype is expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected.numpy(), strict=True)
    if found.dtype.is_float:
        np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(expected.numpy()))


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_every_way_in_converts_as_astype_does(source: str, dtype: DType, device: str) -> None:
    array = SOURCES[source]
    with engine.device(device), np.errstate(all="raise"):
        expected = engine.asarray(array).astype(dtype)
        state = State(np.zeros(array.shape), dtype=dtype)
        state.set_value(array)
        for found in (engine.asarray(array, dtype=dtype), State(array, dtype=dtype), state):
            same(found, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_lists_and_numbers_convert_as_arrays_of_them_do(dtype: DType) -> None:
    for numbers in (ODD, WHOLE, [True, False]):
        expected = engine.asarray(np.array(numbers)).astype(dtype)
        same(engine.asarray(numbers, dtype=dtype), expected)
        same(State([[number] for number in numbers], dtype=dtype)[:, 0], expected)
        same(engine.stack([engine.asarray(number, dtype=dtype) for number in numbers]), expected)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (np.array([300.7, -4.2, 3.99, np.nan, np.inf, -np.inf]), uint8, [255, 0, 3, 0, 255, 0]),
        (np.array([1e10, -1e10, -3.99, np.nan], np.float32), int32, [2**31 - 1, -(2**31), -3, 0]),
        (np.array([np.inf, -np.inf, np.nan]), int64, [2**63 - 1, -(2**63), 0]),
        (np.array([256, 511, -1]), uint8, [0, 255, 255]),
        (np.array([np.nan, 0.25, -0.0]), bool_, [True, True, False]),
        (np.array([np.inf, 6e4, -1], np.float16), int32, [2**31 - 1, 60000, -1]),
        (np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38]), bfloat16, [1.0, 1 + 2**-6, np.inf]),
        (np.array([65504.0, 65520.0, -1e9]), float16, [65504.0, np.inf, -np.inf]),
        ([300.7, -1.0, float("nan")], uint8, [255, 0, 0]),
        (float("inf"), int32, 2**31 - 1),
        (300, uint8, 44),
    ],
)
def test_values_out_of_range(values: Any, dtype: DType, expected: Any) -> None:
    assert engine.asarray(values, dtype=dtype).tolist() == expected


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (np.array([-1, 127], np.int8), uint8, [255, 127]),
        (np.array([65535, 7], np.uint16), uint8, [255, 7]),
        (np.array([65535, 7], np.uint16), bfloat16, [65536.0, 7.0]),
        (np.array([2**32 - 1], np.uint32), int32, [-1]),
        (np.array([2**64 - 1, 5], np.uint64), int64, [-1, 5]),
        (np.array([2**64 - 1, 5], np.uint64), float64, [2.0**64, 5.0]),
        (np.array([2**63], np.uint64), bool_, [True]),
        ([2**63], float32, [2.0**63]),
    ],
)
def test_arrays_of_any_integer_dtype_are_converted(values: Any, dtype: DType, expected: Any) -> None:
    assert engine.asarray(values, dtype=dtype).tolist() == expected
    assert State(values, dtype=dtype).tolist() == expected
    assert engine.asarray(values).numpy().dtype == np.asarray(values).dtype


def test_long_doubles_are_taken_with_a_dtype() -> None:
    values = np.array([1e30, 2.5, -0.1], np.longdouble)
    assert engine.asarray(values, dtype=int32).tolist() == [2**31 - 1, 2, 0]
    assert engine.asarray(values, dtype=float64).tolist() == [1e30, 2.5, -0.1]


@pytest.mark.parametrize("values", [np.array(["1"]), np.array([None]), np.array(["2020"], "M8[Y]")])
def test_what_holds_no_numbers_is_refused(values: np.ndarray) -> None:
    with pytest.raises(TrainerError, match="unsupported element type"):
        engine.asarray(values, dtype=float32)


def test_an_int_that_no_integer_dtype_holds_is_refused() -> None:
    with pytest.raises(TrainerError, match="does not fit into int32"):
        engine.asarray(2**70, dtype=int32)
    with pytest.raises(TrainerError, match="not an element type"):
        engine.asarray(1, dtype="float32")  # type: ignore[arg-type]


def test_copy_false_raises_where_a_copy_is_needed() -> None:
    x = engine.asarray([1.0, 2.0])
    assert engine.asarray(x, copy=False) is x
    assert engine.asarray(x, dtype=float32, copy=False) is x
    assert engine.from_dlpack(x, copy=False) is x
    for value in (np.ones(2, np.float32), [1.0, 2.0], 1.0, np.float32(1)):
        with pytest.raises(ValueError, match="copy=False"):
            engine.asarray(value, copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        engine.asarray(x, dtype=int32, copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        engine.from_dlpack(np.ones((2, 2), np.float32)[:, :1], copy=False)
    assert engine.asarray(np.ones(2), copy=True).tolist() == [1.0, 1.0]

"""What the standard has beyond arithmetic: elementwise functions, integer types, limits and kinds of dtypes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from trainer import TrainerError, engine
from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 2.5, -2.5, 90.0, -90.0, 1e-8, 1e30, np.inf, -np.inf, np.nan])
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
         "atanh": "arctanh", "atan2": "arctan2"}  # fmt: skip
UNARY = ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "log2", "log10", "signbit")
BINARY = ("atan2", "hypot", "logaddexp", "copysign", "nextafter")
INTEGERS = (*dtypes.UNSIGNED, *dtypes.SIGNED)


@pytest.fixture(params=["reference", "cpu"], autouse=True)
def device(request: pytest.FixtureRequest):
    with engine.device(request.param):
        yield request.param


def equal(found: Any, wanted: np.ndarray, relative: float) -> None:
    assert found.dtype.name == wanted.dtype.name
    np.testing.assert_allclose(found.numpy(), wanted, rtol=relative, atol=np.finfo(np.float32).tiny)
    zeros = wanted == 0
    np.testing.assert_array_equal(np.signbit(found.numpy()[zeros]), np.signbit(wanted[zeros]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_functions_equal_numpy_at_special_numbers_too(name: str, dtype: type) -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([SPECIAL, random.standard_normal(200) * np.exp(random.uniform(-20, 20, 200))]).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, NUMPY.get(name, name))(x)
    equal(getattr(engine, name)(engine.asarray(x)), wanted, 1e-6 if dtype is np.float32 else 2e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_equal_numpy_at_special_numbers_too(name: str, dtype: type) -> None:
    x, y = (each.ravel().astype(dtype) for each in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        wanted = getattr(np, NUMPY.get(name, name))(x, y)
    equal(getattr(engine, name)(engine.asarray(x), engine.asarray(y)), wanted, 1e-6 if dtype is np.float32 else 2e-15)


@pytest.mark.parametrize("device", ["reference", pytest.param("cpu", marks=pytest.mark.full)], indirect=True)
@pytest.mark.parametrize("name", [*UNARY[:-1], *BINARY[:-1]])
def test_first_and_second_derivatives(name: str) -> None:
    random = np.random.default_rng(1)
    x = random.uniform(1.1, 3, (4, 3)) if name == "acosh" else random.uniform(0.05, 0.9, (4, 3)) * (-1) ** np.arange(3)
    x = np.abs(x) if name.startswith("log") and name in UNARY else x
    count = 2 if name in BINARY else 1
    check_derivatives(lambda *each: engine.sum(getattr(engine, name)(*each) ** 2), *(x, x[::-1] + 0.01)[:count])


@pytest.mark.parametrize("device", ["reference", pytest.param("cpu", marks=pytest.mark.full)], indirect=True)
def test_derivatives_where_formulas_meet() -> None:
    check_derivatives(
        lambda x: engine.sum(engine.sinh(x) + engine.asinh(x) * engine.atan(x)),
        np.array([0.0, 30.0, -30.0]),
        relative=1e-5,
    )
    check_derivatives(lambda x, y: engine.sum(engine.logaddexp(x, y)), np.zeros(2), np.array([0.0, -800.0]))
    x = engine.zeros((2,))
    assert engine.gradients(engine.sum(engine.hypot(x, 0 * x)), [x])[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(INTEGERS, repeat=2)), ids=str)
def test_integers_meet_as_in_numpy(a: DType, b: DType) -> None:
    x, y = engine.asarray([100, 7, 0], dtype=a), engine.asarray([3, 120, 1], dtype=b)
    if {a.kind, b.kind} == {"int", "uint"} and dtypes.uint64 in (a, b):
        with pytest.raises(TrainerError, match="no integer dtype holds both"):
            x + y
        return
    for name in ("add", "multiply", "subtract", "floor_divide", "remainder", "maximum", "bitwise_xor"):
        wanted = getattr(np, name)(x.numpy(), y.numpy())
        found = getattr(engine, name)(x, y).numpy()
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_largest_and_smallest_integers(dtype: DType) -> None:
    low, high = np.iinfo(dtype.storage).min, np.iinfo(dtype.storage).max
    values = np.array([low, high, 0, 1, high // 2], dtype.storage)
    x = engine.asarray(values)
    assert (x.tolist(), int(engine.max(x)), int(engine.min(x))) == (values.tolist(), high, low)
    assert int(engine.argmax(x)) == 1 and engine.sum(x).dtype is (
        engine.uint64 if dtype.kind == "uint" else engine.int64
    )
    np.testing.assert_array_equal((x < engine.asarray(1, dtype=dtype)).numpy(), values < 1)
    np.testing.assert_array_equal((x >> 1).numpy(), values >> 1)
    np.testing.assert_array_equal(x.astype(engine.float64).numpy(), values.astype(np.float64))
    np.testing.assert_array_equal(engine.matmul(x[None, :], x[:, None]).numpy(), values[None] @ values[:, None])
    saturated = engine.asarray([1e30, -1e30, np.nan, -1.5]).astype(dtype).tolist()
    assert saturated == [high, low, 0, 0 if dtype.kind == "uint" else -1]
    assert engine.asarray(high, dtype=dtype).item() == high and engine.full((1,), high, dtype=dtype).tolist() == [high]


def test_finfo_iinfo_and_isdtype() -> None:
    for dtype in (engine.float16, engine.float32, engine.float64):
        found, wanted = engine.finfo(dtype), np.finfo(dtype.storage)
        assert (found.bits, found.eps, found.max, found.min) == (wanted.bits, wanted.eps, wanted.max, wanted.min)
        assert found.smallest_normal == wanted.smallest_normal
    assert engine.finfo(engine.complex64) == engine.finfo(engine.ones((1,)))
    assert (engine.finfo(engine.bfloat16).max, engine.finfo(engine.bfloat16).eps) == (3.3895313892515355e38, 0.0078125)
    assert (engine.iinfo(engine.uint64).max, engine.iinfo(engine.int8).min) == (2**64 - 1, -128)
    assert engine.isdtype(engine.int8, "signed integer") and engine.isdtype(engine.complex64, ("bool", "numeric"))
    assert not engine.isdtype(engine.bool_, ("integral", engine.float32))
    with pytest.raises(TrainerError, match="unknown kind"):
        engine.isdtype(engine.int8, "whole")


def test_the_namespace_says_what_it_can_do() -> None:
    info = engine.ones((1,)).__array_namespace__(api_version="2025.12").__array_namespace_info__()
    assert info.default_dtypes()["complex floating"] is engine.complex64
    assert info.devices() == [info.default_device()] == [engine.ones((1,)).device]
    assert list(info.dtypes(kind="signed integer")) == ["int8", "int16", "int32", "int64"]
    assert info.capabilities()["boolean indexing"]
    with pytest.raises(TrainerError, match="unsupported version"):
        engine.ones((1,)).__array_namespace__(api_version="2019.01")


def test_differences_counts_grids_and_repeats() -> None:
    x = np.random.default_rng(0).integers(0, 3, (3, 5))
    tensor = engine.asarray(x)
    np.testing.assert_array_equal(engine.diff(tensor, n=2, axis=0).numpy(), np.diff(x, n=2, axis=0))
    np.testing.assert_array_equal(engine.diff(tensor, prepend=tensor[:, :1]).numpy(), np.diff(x, prepend=x[:, :1]))
    np.testing.assert_array_equal(engine.count_nonzero(tensor, axis=1).numpy(), np.count_nonzero(x, axis=1))
    for found, wanted in zip(engine.nonzero(tensor), np.nonzero(x), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)
    for indexing in ("xy", "ij"):
        for found, wanted in zip(
            engine.meshgrid([1, 2], [3, 4, 5], [6], indexing=indexing),
            np.meshgrid([1, 2], [3, 4, 5], [6], indexing=indexing),
            strict=True,
        ):
            np.testing.assert_array_equal(found.numpy(), wanted)
    counts = np.array([2, 0, 1])
    np.testing.assert_array_equal(
        engine.repeat(tensor, engine.asarray(counts), axis=0).numpy(), np.repeat(x, counts, 0)
    )
    assert engine.broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    np.testing.assert_array_equal(engine.isin(tensor, [0, 2], invert=True).numpy(), np.isin(x, [0, 2], invert=True))
    z = np.random.default_rng(1).standard_normal((5, 2)) + 1j
    np.testing.assert_allclose(engine.cumulative_prod(engine.asarray(z), axis=0).numpy(), np.cumprod(z, axis=0))


def test_counts_are_integers() -> None:
    found = engine.bincount(engine.asarray([1, 1, 3, 9]), length=4)
    assert found.dtype is engine.int64 and found.tolist() == [0, 2, 0, 1]

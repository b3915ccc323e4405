"""float16: IEEE's binary16, stored in 16 bits, computed in float32 and rounded at each operation, as NumPy's is."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import float16, float32, float64
from trainer.engine.safetensors import decoded, encoded

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
IS_NAN = np.isnan(EVERY)
DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])


def same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether all numbers have the same bits, and NaN stands where it is expected."""
    numbers = ~np.isnan(expected)
    kind = f"u{expected.itemsize}"
    return bool(np.isnan(found[~numbers]).all() and (found.view(kind)[numbers] == expected.view(kind)[numbers]).all())


@DEVICES
def test_each_of_its_values_widens_exactly_and_comes_back(device: str) -> None:
    with engine.device(device):
        x = engine.asarray(EVERY)
        assert x.dtype is float16
        for wide in (float32, float64):
            assert same_bits(x.astype(wide).numpy(), EVERY.astype(wide.storage))
            assert same_bits(engine.asarray(EVERY.astype(wide.storage)).astype(float16).numpy(), EVERY)


@DEVICES
def test_numbers_between_two_values_round_to_the_nearest_ties_to_even(device: str) -> None:
    values = np.unique(EVERY[np.isfinite(EVERY)].astype(np.float32))
    middle = (values[:-1] + values[1:]) / 2  # exact in float32
    beside = [np.nextafter(middle, side, dtype=np.float32) for side in (np.float32(-np.inf), np.float32(np.inf))]
    beyond = np.array([65519.996, 65520, 1e30, -65520, np.inf, 1e-8, 1e-40, -1e-40], np.float32)
    numbers = np.concatenate([middle, *beside, beyond])
    with engine.device(device), np.errstate(over="ignore"):
        assert same_bits(engine.asarray(numbers).astype(float16).numpy(), numbers.astype(np.float16))


@DEVICES
def test_each_operation_rounds_as_numpys_does(device: str) -> None:
    random = np.random.default_rng(0)
    x, y = (random.permutation(EVERY) for _ in range(2))
    with engine.device(device), np.errstate(all="ignore"):
        a, b = engine.asarray(x), engine.asarray(y)
        for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"):
            assert same_bits(getattr(engine, name)(a, b).numpy(), getattr(np, name)(x, y)), name
        assert same_bits(engine.sqrt(a).numpy(), np.sqrt(x))
        assert same_bits((a * b + a).numpy(), x * y + x)
        np.testing.assert_array_equal(engine.less(a, b).numpy(), x < y)


@DEVICES
def test_products_and_sums_are_rounded_once(device: str) -> None:
    random = np.random.default_rng(0)
    x, w = (random.integers(-40, 40, shape).astype(np.float16) for shape in ((30, 50), (50, 20)))
    with engine.device(device):
        a, b = engine.asarray(x), engine.asarray(w)
        np.testing.assert_array_equal((a @ b).numpy(), (x.astype(np.int64) @ w.astype(np.int64)).astype(np.float16))
        np.testing.assert_array_equal(engine.sum(a, axis=0).numpy(), x.astype(np.int64).sum(0).astype(np.float16))
        ones = engine.ones((3000,), dtype=float16)
        assert engine.sum(ones).item() == 3000  # beyond 2048, one more is lost to rounding
        assert engine.mean(ones).item() == 1


def test_gradients_are_float16_and_those_of_the_formula() -> None:
    random = np.random.default_rng(0)
    x, w = (random.integers(-8, 8, shape).astype(np.float16) for shape in ((6, 5), (5, 4)))
    a, b = engine.asarray(x), engine.asarray(w)
    da, db = engine.gradients(engine.sum(engine.square(a @ b)), [a, b])
    assert (da.dtype, db.dtype) == (float16, float16)
    np.testing.assert_array_equal(da.numpy(), (2 * (x @ w) @ w.T).astype(np.float16))
    np.testing.assert_array_equal(db.numpy(), (2 * x.T @ (x @ w)).astype(np.float16))


def test_it_meets_other_floats_in_the_wider_one_and_bfloat16_in_float32() -> None:
    x = engine.ones((2,), dtype=float16)
    assert (x * 0.1).dtype is float16
    assert (x * engine.ones((2,))).dtype is float32
    assert (x + engine.ones((2,), dtype=engine.bfloat16)).dtype is float32
    assert engine.can_cast(float16, float32)
    assert not engine.can_cast(float16, engine.bfloat16) and not engine.can_cast(engine.bfloat16, float16)
    with pytest.raises(TrainerError, match="different kinds"):
        x + engine.ones((2,), dtype=engine.int32)


def test_it_goes_through_dlpack_and_safetensors() -> None:
    x = engine.asarray(EVERY)
    assert same_bits(np.from_dlpack(x), EVERY)
    content = encoded({"x": (EVERY, float16)}, {})
    assert b'"F16"' in content
    arrays, _ = decoded(content, "here")
    assert arrays["x"][1] is float16 and same_bits(arrays["x"][0], EVERY)

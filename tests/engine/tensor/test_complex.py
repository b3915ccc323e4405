"""Complex numbers: arithmetic and functions as NumPy has them, and derivatives as of functions of two real numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from trainer import TrainerError, engine
from trainer.engine import Tensor

FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "asin", "acos", "atan", "asinh", "acosh", "atanh", "square", "reciprocal", "negative", "conj", "abs", "sign",
    "real", "imag",
)  # fmt: skip
NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}


@pytest.fixture(params=["reference", "cpu"], autouse=True)
def device(request: pytest.FixtureRequest):
    with engine.device(request.param):
        yield request.param


def drawn(shape: tuple[int, ...], seed: int = 0, dtype: type = np.complex128) -> np.ndarray:
    parts = np.random.default_rng(seed).standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_equal_numpy(name: str, dtype: type) -> None:
    z = drawn((3, 5), dtype=dtype)
    found, wanted = getattr(engine, name)(engine.asarray(z)).numpy(), getattr(np, NUMPY.get(name, name))(z)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype is np.complex64 else 1e-13)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow", "equal", "not_equal", "matmul"])
def test_functions_of_two_equal_numpy(name: str, dtype: type) -> None:
    a, b = drawn((4, 4), 1, dtype), drawn((4, 4), 2, dtype)
    b[0, 0] = a[0, 0]
    found = getattr(engine, name)(engine.asarray(a), engine.asarray(b)).numpy()
    wanted = getattr(np, {"pow": "power"}.get(name, name))(a, b)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-5 if dtype is np.complex64 else 1e-12)


def test_movement_takes_pairs_as_they_lie() -> None:
    z = drawn((4, 3, 5))
    x = engine.asarray(z)
    np.testing.assert_array_equal(engine.permute_dims(x, (2, 0, 1)).numpy(), z.transpose(2, 0, 1))
    np.testing.assert_array_equal(x[::-2, 1:, ...].numpy(), z[::-2, 1:])
    np.testing.assert_array_equal(engine.take(x, engine.asarray([2, 0]), axis=1).numpy(), z[:, [2, 0]])
    np.testing.assert_array_equal(engine.concat([x, x], axis=1).numpy(), np.concatenate([z, z], 1))
    np.testing.assert_array_equal(engine.pad(x, ((0, 0), (1, 0), (0, 0)), value=2j).numpy()[:, 0], np.full((4, 5), 2j))
    np.testing.assert_array_equal(engine.tril(x).numpy(), np.tril(z))


@pytest.mark.parametrize("name", ["sum", "prod", "mean"])
@pytest.mark.parametrize("axis", [None, 0, (0, 2)])
def test_reductions_equal_numpy(name: str, axis: int | tuple[int, ...] | None) -> None:
    z = drawn((3, 4, 5))
    np.testing.assert_allclose(
        getattr(engine, name)(engine.asarray(z), axis=axis).numpy(), getattr(np, name)(z, axis=axis)
    )
    np.testing.assert_allclose(engine.cumulative_sum(engine.asarray(z), axis=1).numpy(), np.cumsum(z, 1))


def test_large_and_small_numbers_neither_overflow_nor_vanish() -> None:
    z = np.array([3e300 + 4e300j, 3e-300 + 4e-300j, 0, complex(np.inf, np.nan), complex(np.nan, 1)])
    np.testing.assert_allclose(engine.abs(engine.asarray(z)).numpy(), np.abs(z), rtol=1e-15)
    np.testing.assert_allclose((engine.asarray(z[:2]) / engine.asarray(z[:2])).numpy(), [1, 1], rtol=1e-15)


@pytest.mark.parametrize("device", ["reference", pytest.param("cpu", marks=pytest.mark.full)], indirect=True)
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda z: engine.real(engine.exp(z) * engine.conj(z)), "exp"),
        (lambda z: engine.abs(z / (z * z + 2)), "divide"),
        (lambda z: engine.imag(engine.sin(z) * engine.log(z)) + engine.real(engine.tanh(z) ** 2.5), "functions"),
        (lambda z: engine.abs(engine.matmul(z, engine.conj(z).mT)), "matmul"),
        (lambda z: engine.abs(engine.prod(z, axis=0)) + engine.abs(engine.cumulative_sum(z, axis=1)), "reductions"),
        (lambda z: engine.real(z[engine.asarray([0, 2, 0])] * z[:3, ::-1]), "indices"),
        (lambda z: engine.abs(engine.sign(z) * engine.sqrt(z) + engine.atan(z) * engine.asinh(z)), "more functions"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_first_and_second_derivatives(function: Callable[[Tensor], Tensor], name: str) -> None:
    check_derivatives(lambda z: engine.sum(function(z)), drawn((3, 3), 7))


def test_casts() -> None:
    z = engine.asarray([1 + 2j, 0j])
    assert z.dtype is engine.complex64 and z.astype(engine.complex128).dtype is engine.complex128
    assert z.astype(engine.bool_).tolist() == [True, False]
    assert engine.asarray([1.5]).astype(engine.complex64).tolist() == [1.5 + 0j]
    assert engine.asarray([1, 2], dtype=engine.complex128).tolist() == [1, 2]
    with pytest.raises(TrainerError, match="no real value"):
        z.astype(engine.float32)
    with pytest.raises(TrainerError, match="complex numbers are not of float32"):
        engine.asarray(1j, dtype=engine.float32)


def test_a_complex_step_is_traced() -> None:
    @engine.trace
    def step(x: Tensor) -> Tensor:
        z = engine.exp(1j * x) * x
        return engine.real(z * engine.conj(z))

    np.testing.assert_allclose(step(np.arange(5.0)).numpy(), np.arange(5.0) ** 2, rtol=1e-12)


def test_numbers_meet_in_the_dtype_that_holds_both() -> None:
    x = engine.ones((2,))
    assert (x + 1j).dtype is engine.complex64 and (1j * x.astype(engine.float64)).dtype is engine.complex128
    assert (x + engine.ones((2,), dtype=engine.complex64)).dtype is engine.complex64
    assert complex(engine.asarray(2 + 1j)) == 2 + 1j

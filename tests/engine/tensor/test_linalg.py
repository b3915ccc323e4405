"""`engine.linalg` equals NumPy, in batches, real and complex, with first and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from trainer import TrainerError, engine
from trainer.engine import Tensor, linalg

DTYPES = (np.float32, np.float64, np.complex64, np.complex128)


def drawn(*shape: int, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    parts = np.random.default_rng(seed).standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]).astype(dtype)


def definite(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    x = drawn(*shape, dtype=dtype)
    return x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)


def hermitian(x: Tensor) -> Tensor:
    return x + engine.conj(x).mT


def close(found: Tensor, wanted: np.ndarray, dtype: Any) -> None:
    assert found.dtype.name == np.asarray(wanted).dtype.name
    tolerance = 2e-4 if np.dtype(dtype).itemsize in (4,) or dtype is np.complex64 else 1e-10
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "eigvalsh", "pinv", "svdvals"])
def test_functions_of_a_matrix_equal_numpy(name: str, dtype: Any) -> None:
    x = definite(2, 3, 3, dtype=dtype)
    close(getattr(linalg, name)(engine.asarray(x)), getattr(np.linalg, name)(x), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 5), (3, 3)])
def test_decompositions_multiply_back(shape: tuple[int, ...], dtype: Any) -> None:
    x = drawn(*shape, dtype=dtype)
    tensor = engine.asarray(x)
    q, r = linalg.qr(tensor)
    close(q @ r, x, dtype)
    u, s, vh = linalg.svd(tensor, full_matrices=False)
    close((u * s.astype(u.dtype)[..., None, :]) @ vh, x, dtype)
    assert linalg.svd(tensor).U.shape == (*shape[:-1], shape[-2])
    square = definite(4, 4, dtype=dtype)
    w, v = linalg.eigh(engine.asarray(square))
    close(v @ (w.astype(v.dtype)[..., None] * engine.conj(v).mT), square, dtype)
    w, v = linalg.eig(engine.asarray(square))
    np.testing.assert_allclose(
        (engine.asarray(square).astype(v.dtype) @ v).numpy(), (v * w[None, :]).numpy(), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_systems_and_slogdet_equal_numpy(dtype: Any) -> None:
    a, b = drawn(2, 3, 3, dtype=dtype), drawn(3, dtype=dtype, seed=1)
    close(linalg.solve(engine.asarray(a), engine.asarray(b)), np.linalg.solve(a, b), dtype)
    close(linalg.solve(engine.asarray(a[0]), engine.asarray(a)), np.linalg.solve(a[0], a), dtype)
    for found, wanted in zip(linalg.slogdet(engine.asarray(a)), np.linalg.slogdet(a), strict=True):
        close(found, wanted, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_composed_equals_numpy(dtype: Any) -> None:
    x, y = drawn(3, 4, 3, dtype=dtype), drawn(4, 3, dtype=dtype, seed=1)
    tensor = engine.asarray(x)
    close(linalg.cross(tensor, engine.asarray(y)), np.cross(x, y), dtype)
    for one, other, axis in ((x, y[0], 0), (y[0], x, 0), (x, x.T, 0)):
        found = linalg.cross(engine.asarray(one), engine.asarray(other), axis=axis)
        close(found, np.cross(one, other, axis=axis), dtype)
    close(linalg.outer(engine.asarray(y[:, 0]), engine.asarray(y[0])), np.outer(y[:, 0], y[0]), dtype)
    for offset in (-5, -1, 0, 2, 4):
        close(linalg.diagonal(tensor, offset=offset), np.diagonal(x, offset, -2, -1), dtype)
        close(linalg.trace(tensor, offset=offset), np.trace(x, offset, -2, -1), dtype)
    close(linalg.vecdot(tensor, engine.asarray(y)), np.vecdot(x, y), dtype)
    for power in (-2, 0, 1, 5):
        close(linalg.matrix_power(engine.asarray(x[0, :3]), power), np.linalg.matrix_power(x[0, :3], power), dtype)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(linalg.matrix_norm(tensor, ord=order), np.linalg.matrix_norm(x, ord=order), dtype)
    for order in (0, 1, 2, 3, 0.5, -1, np.inf, -np.inf):
        close(linalg.vector_norm(tensor, axis=1, ord=order), np.linalg.vector_norm(x, axis=1, ord=order), dtype)
    assert linalg.matrix_rank(engine.asarray(np.ones((2, 3, 3), dtype))).tolist() == [1, 1]


def phaseless(columns: Tensor) -> Tensor:
    """What does not depend on the sign or phase of each column."""
    weights = engine.asarray(np.random.default_rng(9).standard_normal(columns.shape[0]))
    return engine.sum(
        engine.abs(engine.matmul(weights.astype(columns.dtype)[None, :], columns)) ** 2
        * np.arange(1.0, columns.shape[1] + 1)
    )


CASES: dict[str, tuple[Callable[..., Tensor], tuple[int, int]]] = {
    "inv": (lambda x: engine.sum(engine.abs(linalg.inv(x)) ** 2), (3, 3)),
    "det": (lambda x: engine.abs(linalg.det(x)), (3, 3)),
    "slogdet": (lambda x: linalg.slogdet(x).logabsdet + engine.real(linalg.slogdet(x).sign), (3, 3)),
    "solve": (lambda x: engine.sum(engine.abs(linalg.solve(x, x[:, :2] * x[0, 0])) ** 2), (3, 3)),
    "cholesky": (lambda x: engine.sum(engine.abs(linalg.cholesky(engine.matmul(x, engine.conj(x).mT))) ** 3), (3, 3)),
    "pinv": (lambda x: engine.sum(engine.abs(linalg.pinv(x)) ** 2), (4, 3)),
    "pinv wide": (lambda x: engine.sum(engine.abs(linalg.pinv(x)) ** 2), (2, 3)),
    "qr": (lambda x: phaseless(linalg.qr(x).Q) + engine.sum(engine.abs(linalg.qr(x).R) ** 3), (4, 3)),
    "qr wide": (lambda x: phaseless(linalg.qr(x).Q) + engine.sum(engine.abs(linalg.qr(x).R) ** 3), (2, 4)),
    "eigh": (lambda x: phaseless(linalg.eigh(hermitian(x)).eigenvectors), (3, 3)),
    "eigvalsh": (lambda x: engine.sum(linalg.eigvalsh(hermitian(x)) ** 3), (3, 3)),
    "eig": (lambda x: phaseless(linalg.eig(x).eigenvectors), (3, 3)),
    "eigvals": (lambda x: engine.sum(engine.abs(linalg.eigvals(x)) ** 3), (3, 3)),
    "svd": (lambda x: phaseless(linalg.svd(x, full_matrices=False).U) + engine.sum(linalg.svdvals(x) ** 3), (4, 3)),
    "svd wide": (lambda x: phaseless(engine.conj(linalg.svd(x, full_matrices=False).Vh).mT), (3, 4)),
    "matrix_norm": (lambda x: linalg.matrix_norm(x, ord="nuc") * linalg.matrix_norm(x, ord=2), (3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", CASES)
def test_first_and_second_derivatives(name: str, dtype: Any) -> None:
    function, shape = CASES[name]
    check_derivatives(function, drawn(*shape, dtype=dtype, seed=5) + 2 * np.eye(*shape), relative=1e-5)


def test_a_traced_step_differentiates_through_numpy() -> None:
    @engine.trace
    def step(x: Tensor) -> Tensor:
        (found,) = engine.gradients(linalg.slogdet(x).logabsdet, [x])
        return found

    x = drawn(3, 3)
    for _ in range(2):
        np.testing.assert_allclose(step(x).numpy(), np.linalg.inv(x).T, rtol=1e-10)


def test_mistakes_are_refused() -> None:
    with pytest.raises(TrainerError, match="square matrices"):
        linalg.inv(engine.ones((2, 3)))
    with pytest.raises(TrainerError, match="does not take int64"):
        linalg.svd(engine.ones((2, 3), dtype=engine.int64))
    with pytest.raises(TrainerError, match=r"numpy\.linalg\.inv raised LinAlgError"):
        linalg.inv(engine.zeros((2, 2))).numpy()
    x = engine.ones((4, 3))
    with pytest.raises(TrainerError, match="has no derivative"):
        engine.gradients(engine.sum(linalg.svd(x).U), [x])

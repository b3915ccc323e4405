"""`engine.fft` equals NumPy, with derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from trainer import TrainerError, engine
from trainer.engine import Tensor, fft


def drawn(*shape: int, kind: str = "c") -> np.ndarray:
    parts = np.random.default_rng(0).standard_normal((2, *shape))
    return parts[0] + 1j * parts[1] if kind == "c" else parts[0]


ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 6, 9])
@pytest.mark.parametrize("name", ONE)
def test_along_an_axis(name: str, n: int | None, norm: str) -> None:
    x = drawn(4, 6, 3, kind="f" if name in ("rfft", "ihfft") else "c")
    found = getattr(fft, name)(engine.asarray(x), n=n, axis=1, norm=norm).numpy()
    np.testing.assert_allclose(found, getattr(np.fft, name)(x, n=n, axis=1, norm=norm), atol=1e-12)


@pytest.mark.parametrize(("s", "axes"), [(None, None), (None, (0, 2)), ((3, 5), (1, 0)), ((4, 4, 4), (0, 1, 2))])
@pytest.mark.parametrize("name", SEVERAL)
def test_along_several_axes(name: str, s: Any, axes: Any) -> None:
    x = drawn(4, 5, 6, kind="f" if name == "rfftn" else "c")
    found = getattr(fft, name)(engine.asarray(x), s=s, axes=axes).numpy()
    np.testing.assert_allclose(found, getattr(np.fft, name)(x, s=s, axes=axes), atol=1e-12)


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_single_precision_stays_single(name: str) -> None:
    x = drawn(4, 6, kind="f" if name.startswith(("rf", "ih")) else "c")
    found = getattr(fft, name)(engine.asarray(x.astype(np.float32 if x.dtype.kind == "f" else np.complex64)))
    assert found.dtype in (engine.float32, engine.complex64)
    np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(x), atol=1e-4)


@pytest.mark.parametrize("n", [4, 5])
def test_frequencies_and_shifts(n: int) -> None:
    np.testing.assert_allclose(fft.fftfreq(n, d=0.5).numpy(), np.fft.fftfreq(n, 0.5))
    np.testing.assert_allclose(fft.rfftfreq(n, d=0.5).numpy(), np.fft.rfftfreq(n, 0.5))
    x = drawn(n, 3)
    for axes in (None, 0, (0, 1)):
        np.testing.assert_array_equal(fft.fftshift(engine.asarray(x), axes=axes).numpy(), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(fft.ifftshift(engine.asarray(x), axes=axes).numpy(), np.fft.ifftshift(x, axes))


@pytest.mark.parametrize("norm", ["backward", "ortho"])
@pytest.mark.parametrize("n", [4, 7])
@pytest.mark.parametrize("name", ONE)
def test_first_and_second_derivatives(name: str, n: int, norm: str) -> None:
    def function(x: Tensor) -> Tensor:
        return engine.sum(engine.abs(getattr(fft, name)(x, n=n, axis=0, norm=norm)) ** 3)

    check_derivatives(function, drawn(5, 2, kind="f" if name in ("rfft", "ihfft") else "c"))


def test_a_traced_step_filters() -> None:
    @engine.trace
    def step(x: Tensor) -> Tensor:
        spectrum = fft.rfft(x)
        return fft.irfft(spectrum * spectrum, n=8)

    x = drawn(8, kind="f")
    np.testing.assert_allclose(step(x).numpy(), np.fft.irfft(np.fft.rfft(x) ** 2, n=8), atol=1e-12)


def test_mistakes_are_refused() -> None:
    with pytest.raises(TrainerError, match="no such norm"):
        fft.fft(engine.ones((3,)), norm="full")
    with pytest.raises(TrainerError, match="does not take int64"):
        fft.fft(engine.asarray([1, 2]))
    with pytest.raises(TrainerError, match="takes real numbers"):
        fft.rfft(engine.asarray([1j]))

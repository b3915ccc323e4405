"""Convolution and pooling against plain NumPy: every kind of stride, padding, dilation and group; adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def direct(x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    reach = dilation * (w.shape[2] - 1) + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, (reach, reach), (2, 3))
    return np.einsum("ncpqrs,kcrs->nkpq", windows[:, :, ::stride, ::stride, ::dilation, ::dilation], w)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 1, 1)])
def test_convolution(stride: int, padding: int, dilation: int) -> None:
    x, w = random(2, 3, 9, 8), random(4, 3, 3, 3)
    found = engine.convolution(engine.asarray(x), engine.asarray(w), stride=stride, padding=padding, dilation=dilation)
    np.testing.assert_allclose(found.numpy(), direct(x, w, stride, padding, dilation), atol=1e-12)


def test_uneven_padding_and_groups() -> None:
    x, w = random(1, 4, 5, 5), random(6, 2, 2, 2)
    found = engine.convolution(engine.asarray(x), engine.asarray(w), padding=((0, 1), (2, 0)), groups=2)
    padded = np.pad(x, ((0, 0), (0, 0), (0, 1), (2, 0)))
    parts = [direct(padded[:, 2 * g : 2 * g + 2], w[3 * g : 3 * g + 3], 1, 0, 1) for g in range(2)]
    np.testing.assert_allclose(found.numpy(), np.concatenate(parts, 1), atol=1e-12)


def test_one_dimension() -> None:
    x, w = random(2, 3, 9), random(4, 3, 3)
    found = engine.convolution(engine.asarray(x), engine.asarray(w), stride=2, padding=1)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1))), 3, 2)[:, :, ::2]
    np.testing.assert_allclose(found.numpy(), np.einsum("nclr,kcr->nkl", windows, w), atol=1e-12)


def adjoint_product(x: np.ndarray, w: np.ndarray, y: np.ndarray, **geometry: Any) -> tuple[float, float]:
    forward = engine.convolution(engine.asarray(y), engine.asarray(w), **geometry).numpy()
    back = engine.convolution_transpose(engine.asarray(x), engine.asarray(w), **geometry).numpy()
    return float((forward * x).sum()), float((back * y[:, :, : back.shape[2], : back.shape[3]]).sum())


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (2, 0, 2), (1, 2, 1)])
def test_transposed_convolution_is_the_transpose(stride: int, padding: int, dilation: int) -> None:
    x, w = random(2, 4, 5, 4), random(4, 3, 3, 3)
    extents = [(extent - 1) * stride - 2 * padding + dilation * 2 + 1 for extent in (5, 4)]
    y = random(2, 3, *extents)
    forward, back = adjoint_product(x, w, y, stride=stride, padding=padding, dilation=dilation)
    assert forward == pytest.approx(back, rel=1e-10)


@pytest.mark.parametrize(("extra", "stride", "padding", "dilation"), [(1, 2, 1, 1), (1, 1, 0, 2), (1, 1, 1, 2)])
def test_output_padding_adds_at_the_end(extra: int, stride: int, padding: int, dilation: int) -> None:
    """The result is that of no cropping and no extra, cut from `padding` on and with zeros where it ends."""
    x, w = random(1, 2, 4, 4), random(2, 3, 3, 3)
    inputs, geometry = (engine.asarray(x), engine.asarray(w)), {"stride": stride, "dilation": dilation}
    whole = engine.convolution_transpose(*inputs, **geometry).numpy()
    found = engine.convolution_transpose(*inputs, padding=padding, output_padding=extra, **geometry).numpy()
    extent = whole.shape[2] - 2 * padding + extra
    expected = np.pad(whole, ((0, 0), (0, 0), (0, 9), (0, 9)))[
        :, :, padding : padding + extent, padding : padding + extent
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_transposed_convolution_in_one_dimension() -> None:
    x, w = random(1, 2, 4), random(2, 3, 4)
    found = engine.convolution_transpose(engine.asarray(x), engine.asarray(w), stride=2, padding=1)
    expected = np.zeros((1, 3, 10))
    for place in range(4):
        expected[:, :, 2 * place : 2 * place + 4] += np.einsum("nk,kcr->ncr", x[:, :, place], w)
    np.testing.assert_allclose(found.numpy(), expected[:, :, 1:-1], atol=1e-12)


def test_max_pool() -> None:
    x = engine.asarray(ramp(1, 1, 4, 5))
    assert engine.max_pool(x, 2).tolist() == [[[[6, 8], [16, 18]]]]
    assert engine.max_pool(-x, 3, stride=2, padding=1).tolist() == [[[[0, -1, -3], [-5, -6, -8]]]]


def test_the_gradient_of_max_pool_goes_to_the_first_maximum() -> None:
    x = engine.asarray(np.array([[[[1.0, 1.0], [1.0, 0.0]]]]))
    (found,) = engine.gradients(engine.sum(engine.max_pool(x, 2)), [x])
    assert found.tolist() == [[[[1, 0], [0, 0]]]]


@pytest.mark.parametrize(
    ("window", "stride", "padding"), [(2, None, 0), (3, 2, 1), ((2, 3), (1, 2), (0, 1)), ((4, 6), None, 0)]
)
def test_average_pool_counts_padding_as_zeros(window: Any, stride: Any, padding: Any) -> None:
    x = random(2, 3, 4, 6)
    rows, columns = (window, window) if isinstance(window, int) else window
    pads = (padding, padding) if isinstance(padding, int) else padding
    steps = (rows, columns) if stride is None else (stride, stride) if isinstance(stride, int) else stride
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0],) * 2, (pads[1],) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (rows, columns), (2, 3))[:, :, :: steps[0], :: steps[1]]
    found = engine.average_pool(engine.asarray(x), window, stride=stride, padding=padding)
    np.testing.assert_allclose(found.numpy(), windows.mean((-2, -1)), atol=1e-12)


@pytest.mark.parametrize(("window", "dilation"), [((3, 5), 1), ((3, 3), 2), ((2, 1), 2)])
def test_same_padding_keeps_the_extents(window: tuple[int, int], dilation: int) -> None:
    x, w = np.random.default_rng(0).normal(size=(1, 2, 7, 8)), np.ones((3, 2, *window))
    found = engine.convolution(x, w, padding="same", dilation=dilation)
    margins = [dilation * (size - 1) // 2 for size in window]
    assert found.shape == (1, 3, 7, 8)
    np.testing.assert_array_equal(found.numpy(), engine.convolution(x, w, padding=margins, dilation=dilation).numpy())


@pytest.mark.parametrize("geometry", [{"stride": 2}, {"window": 4}, {"padding": "full"}, {"stride": 0}])
def test_padding_by_name_that_can_not_be_is_refused(geometry: dict[str, Any]) -> None:
    size = geometry.pop("window", 3)
    with pytest.raises(TrainerError, match="convolution: no"):
        engine.convolution(np.zeros((1, 2, 7, 7)), np.zeros((3, 2, size, size)), **{"padding": "same", **geometry})

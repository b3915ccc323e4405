"""A convolution written out as windows, broadcasts, a product and a sum is one contraction, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from trainer import engine
from trainer.engine import Tensor
from trainer.engine.graph.node import topological
from trainer.engine.program.contractions import contracted


def written_out(x: Tensor, w: Tensor, stride: int = 1, dilation: int = 1) -> Tensor:
    """[N, C, H, W] and [K, C, R, S] to [N, K, P, Q]."""
    places = engine.windows(x, w.shape[2:], axis=(2, 3), stride=stride, dilation=dilation)
    return engine.sum(places[:, None] * w[None, :, :, None, None], axis=(2, 5, 6))


def names(*tensors: Tensor) -> set[str]:
    return {node.name for node in topological(contracted([tensor.node for tensor in tensors]))}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (2, 3)])
def test_it_is_the_convolution(stride: int, dilation: int) -> None:
    x, w = engine.asarray(normal(2, 3, 9, 11)), engine.asarray(normal(4, 3, 2, 3, seed=1))
    y = written_out(x, w, stride, dilation)
    assert "convolution" in names(y)
    expected = engine.convolution(x, w, stride=stride, dilation=dilation)
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)


def test_its_weight_gradient_is_one_too_and_it_is_twice_differentiable() -> None:
    x, w = engine.asarray(normal(2, 3, 9, 8)), engine.asarray(normal(4, 3, 2, 3, seed=1))
    dx, dw = engine.gradients(engine.sum(written_out(x, w) ** 2), [x, w])
    assert "convolution_weight_gradient" in names(dw)
    expected = engine.gradients(engine.sum(engine.convolution(x, w) ** 2), [x, w])
    for own, other in zip((dx, dw), expected, strict=True):
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-10, atol=1e-10)
    check_derivatives(lambda a, b: written_out(a, b, stride=2), normal(1, 2, 5, 4), normal(3, 2, 2, 2, seed=1))


def test_along_one_axis_and_with_axes_in_another_order() -> None:
    x, w = normal(7, 5, 20), normal(3, 5, 4, seed=1)

    def step(x: Tensor, w: Tensor) -> Tensor:
        places = engine.permute_dims(engine.windows(x, 4), (2, 3, 1, 0))  # [P, R, C, N]
        return engine.sum(places[:, :, :, :, None] * engine.permute_dims(w, (2, 1, 0))[:, :, None], axis=(1, 2))

    y = step(engine.asarray(x), engine.asarray(w))
    assert "convolution" in names(y)
    expected = engine.convolution(x, w).numpy()
    np.testing.assert_allclose(y.numpy(), np.transpose(expected, (2, 0, 1)), rtol=1e-12, atol=1e-12)


def test_memory_and_launches_do_not_depend_on_the_window() -> None:
    x = normal(2, 16, 24, 24).astype(np.float32)
    found = []
    for size in (3, 7):
        traced = engine.trace(written_out)
        traced(x, normal(16, 16, size, size).astype(np.float32))
        found.append(engine.memory_report(traced).arena)
    assert max(found) < 3 * x.nbytes + 4 * 16 * 16 * 49 * 2


def test_windows_fuse_with_what_reads_them() -> None:
    traced = engine.trace(lambda x: engine.sum(engine.windows(x * 2, 5) * 0.5, axis=-1))
    x = normal(4096).astype(np.float32)
    np.testing.assert_allclose(
        traced(x).numpy(), np.lib.stride_tricks.sliding_window_view(x, 5).sum(-1), rtol=1e-4, atol=1e-5
    )
    assert engine.memory_report(traced).arena < 3 * x.nbytes


@pytest.mark.parametrize(
    "function",
    [
        lambda x: engine.sum(engine.windows(x, 3) * engine.windows(x, 3), axis=-1),
        lambda x: engine.sum(engine.windows(x, 3) * engine.asarray(normal(3)), axis=-2),
        lambda x: engine.sum(engine.windows(x, 3) * engine.asarray(normal(6, 3)), axis=-1),
        lambda x: engine.sum(engine.windows(x, 3)[:, ::2] * engine.asarray(normal(3)), axis=-1),
        lambda x: engine.sum(engine.windows(x, 1) * engine.asarray(normal(1)), axis=-1),
        lambda x: engine.sum(engine.windows(x, 8) * engine.asarray(normal(8)), axis=-1),
    ],
)
def test_other_sums_over_windows_are_what_they_say(function: Any) -> None:
    x = normal(2, 8)
    with engine.device("reference"):
        expected = function(engine.asarray(x)).numpy()
    np.testing.assert_allclose(function(engine.asarray(x)).numpy(), expected, rtol=1e-12, atol=1e-12)

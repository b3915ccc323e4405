"""Contractions over nothing are zeros, and what is added to them is not lost."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import engine


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_product_over_nothing_plus_a_bias_is_the_bias(device: str) -> None:
    bias = np.arange(4, dtype=np.float32)
    with engine.device(device):
        y = engine.matmul(engine.zeros((3, 0)), engine.zeros((0, 4))) + engine.asarray(bias)
        np.testing.assert_array_equal(y.numpy(), np.broadcast_to(bias, (3, 4)))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_convolution_of_no_channels_plus_a_bias_is_the_bias(device: str) -> None:
    bias = np.arange(1, 6, dtype=np.float32).reshape(1, 5, 1, 1)
    with engine.device(device):
        y = engine.convolution(engine.zeros((2, 0, 4, 4)), engine.zeros((5, 0, 3, 3)), padding=1)
        np.testing.assert_array_equal((y + engine.asarray(bias)).numpy(), np.broadcast_to(bias, (2, 5, 4, 4)))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_an_axis_of_nothing_is_transposed(device: str) -> None:
    with engine.device(device):
        x = engine.permute_dims(engine.zeros((0, 0, 2)), (2, 1, 0))
        assert engine.isinf(x).numpy().shape == (2, 0, 0)

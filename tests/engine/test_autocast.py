"""autocast: what is computed in 16 bits, what stays float32, and that training with it is right and repeatable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engine.movement import deviation
from tests.engine.networks.training import Outcome, Residual
from tests.tiers import tiered
from trainer import TrainerError, engine
from trainer.engine import DType, Tensor, nn
from trainer.engine.graph import half
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.learner import SGD

NET = Residual(blocks=(1, 1), width=8, size=40, batch=3, steps=3)


def random(*shape: int, seed: int = 0) -> Tensor:
    return engine.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


X, W = random(4, 6), random(6, 5, seed=1)
IMAGE, FILTERS = random(2, 3, 8, 8), random(4, 3, 3, 3, seed=2)

NARROW = {
    "matmul": lambda: engine.matmul(X, W),
    "operator": lambda: X @ W,
    "tensordot": lambda: engine.tensordot(X, W, axes=1),
    "convolution": lambda: engine.convolution(IMAGE, FILTERS),
    "convolution_transpose": lambda: engine.convolution_transpose(random(1, 4, 5, 5), FILTERS, stride=2),
    "Linear": lambda: nn.Linear(6, 3).set_seed(0)(X),
    "Conv2d": lambda: nn.Conv2d(3, 4, 3).set_seed(0)(IMAGE),
}
FOLLOWING = {"BatchNorm2d": (nn.BatchNorm2d(3).set_seed(0), IMAGE), "relu": (nn.ReLU(), X)}
WIDE = {
    "sum": engine.sum,
    "mean": lambda x: engine.mean(x, axis=1),
    "var": engine.var,
    "cumulative_sum": lambda x: engine.cumulative_sum(x, axis=0),
    "exp": engine.exp,
    "log1p": lambda x: engine.log1p(engine.abs(x)),
    "pow": lambda x: x**2,
    "softmax": nn.functional.softmax,
    "log_softmax": nn.functional.log_softmax,
    "cross_entropy": lambda x: nn.cross_entropy(x, engine.asarray([0, 1, 2, 3])),
    "mse_loss": lambda x: nn.mse_loss(x, x),
    "l1_loss": lambda x: nn.l1_loss(x, x),
    "binary_cross_entropy": lambda x: nn.binary_cross_entropy_with_logits(x, x),
    "float32 elsewhere": lambda x: X * X,
}
HALF_DTYPES = (engine.bfloat16, engine.float16)
HALVES = pytest.mark.parametrize("half_dtype", HALF_DTYPES, ids=str)


@HALVES
@pytest.mark.parametrize("name", NARROW)
def test_products_have_16_bits(name: str, half_dtype: DType) -> None:
    with engine.autocast(half_dtype):
        assert NARROW[name]().dtype is half_dtype


@HALVES
@pytest.mark.parametrize("name", FOLLOWING)
def test_what_follows_products_keeps_their_dtype(name: str, half_dtype: DType) -> None:
    layer, x = FOLLOWING[name]
    with engine.autocast(half_dtype):
        assert layer(x.astype(half_dtype)).dtype is half_dtype


@HALVES
@pytest.mark.parametrize("name", WIDE)
def test_sums_logarithms_and_losses_are_float32(name: str, half_dtype: DType) -> None:
    with engine.autocast(half_dtype):
        assert WIDE[name](X.astype(half_dtype)).dtype is engine.float32


def test_it_ends_with_its_block_and_can_be_ended_inside() -> None:
    with engine.autocast("bfloat16"):
        with engine.autocast("float32"):
            assert (X @ W).dtype is engine.float32
        assert (X @ W).dtype is engine.bfloat16
    assert (X @ W).dtype is engine.float32


def test_float64_and_unknown_precisions() -> None:
    wide = X.astype(engine.float64)
    with engine.autocast():
        assert (wide @ W.astype(engine.float64)).dtype is engine.float64
    with pytest.raises(TrainerError, match="unknown precision"), engine.autocast("float8"):
        pass


@HALVES
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_linear_layer_equals_its_formula(device: str, half_dtype: DType) -> None:
    """Forward: operands rounded, exact sum rounded; backward: dy rounded, sums of float32, dw not rounded further."""
    x, w = X.numpy(), W.numpy()
    with engine.device(device), engine.autocast(half_dtype):
        y = X @ W
        loss = engine.sum(y * y.astype(engine.float32))
        dx, dw = engine.gradients(loss, [X, W])
        found = [array.numpy() for array in (y, dx, dw)]

    def r(values: np.ndarray) -> np.ndarray:
        return half.rounded(values, half_dtype)

    product = r(r(x).astype(np.float64) @ r(w))
    dy = r(2 * product)
    np.testing.assert_array_equal(found[0], product)
    np.testing.assert_allclose(found[1], dy.astype(np.float64) @ r(w).T, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found[2], r(x).T.astype(np.float64) @ dy, rtol=1e-6, atol=1e-6)
    assert (found[2] != r(found[2])).any()


def test_second_derivatives_follow_the_rounding() -> None:
    results = []
    for device in ("cpu", "reference"):
        with engine.device(device), engine.autocast():
            y = engine.convolution(IMAGE, FILTERS, padding=1)
            (first,) = engine.gradients(engine.sum(y * y * y), [FILTERS])
            (second,) = engine.gradients(engine.sum(first * first), [IMAGE])
            results.append(second.numpy())
    scale = np.abs(results[1]).max()
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=2.0**-7 * scale)


def test_a_traced_step_is_traced_for_each_precision() -> None:
    traced = engine.trace(lambda x, w: x @ w)
    assert traced(X, W).dtype is engine.float32
    with engine.autocast():
        assert traced(X, W).dtype is engine.bfloat16
    assert traced(X, W).dtype is engine.float32
    assert len(traced.programs) == 2


def test_a_weight_is_rounded_once_a_step() -> None:
    net = nn.Conv2d(16, 16, 3, padding=1, bias=False).set_seed(0)
    optimizer = SGD(net, 0.1)

    def step(x: Tensor) -> Tensor:
        with engine.autocast():
            loss = engine.mean(net(net(net(x))) ** 2)
        optimizer.minimize(loss)
        return loss

    traced = engine.trace(step)
    traced(random(2, 16, 6, 6))
    of_weight = [
        launch
        for launch in traced.programs[0].launches
        if any(buffer.storage is net.weight.storage for buffer in launch.reads) and launch.label == "cast"
    ]
    assert len(of_weight) == 1


def trained(device: CpuDevice, **changes: Any) -> Outcome:
    with engine.autocast(**changes):
        return NET.run(device, np.float32)


@pytest.mark.parametrize("half_dtype", tiered(HALF_DTYPES, (engine.bfloat16,)), ids=str)
def test_training_has_the_same_bits_on_every_setting(half_dtype: DType) -> None:
    expected = trained(CpuDevice(threads=1, poison=False), dtype=half_dtype)
    assert np.isfinite(expected.losses).all()
    for settings in ({"threads": 2}, {"threads": 2, "poison": True}, {"threads": 3, "narrow": True}):
        found = trained(CpuDevice(**settings), dtype=half_dtype)
        np.testing.assert_array_equal(found.losses, expected.losses)
        different = [key for key, value in expected.states.items() if not np.array_equal(found.states[key], value)]
        assert not different, settings


@HALVES
def test_training_stays_close_to_float32_and_states_stay_float32(half_dtype: DType) -> None:
    device = CpuDevice(threads=2)
    found, expected = trained(device, dtype=half_dtype), trained(device, dtype="float32")
    np.testing.assert_allclose(found.losses, expected.losses, rtol=0.03)
    assert not np.array_equal(found.losses, expected.losses)
    before = replace(NET, steps=0).run(device, np.float32)
    for key, value in expected.states.items():
        assert found.states[key].dtype == value.dtype
        if not key.endswith(".skipped_steps"):
            assert deviation(before.states[key], value, found.states[key]) < 0.6, key

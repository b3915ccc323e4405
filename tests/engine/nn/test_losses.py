"""Losses equal PyTorch's in float64, with their gradients; padded rows count for nothing."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


class Given:
    """The inputs that PyTorch was given, as tensors."""

    def __init__(self, inputs):
        for name, values in inputs.items():
            setattr(self, name, engine.asarray(values.astype(np.int64) if "labels" in name else values))


LOSSES = {
    "cross_entropy": ("logits", lambda x, given: nn.cross_entropy(x, given.labels)),
    "cross_entropy_none": ("logits", lambda x, given: nn.cross_entropy(x, given.labels, reduction="none")),
    "cross_entropy_pixels": ("pixels", lambda x, given: nn.cross_entropy(x, given.pixel_labels, reduction="sum")),
    "cross_entropy_weighted": ("logits", lambda x, given: nn.cross_entropy(x, given.labels, weight=given.class_weight)),
    "cross_entropy_smooth": ("logits", lambda x, given: nn.cross_entropy(x, given.labels, label_smoothing=0.1)),
    "cross_entropy_smooth_weighted": (
        "logits",
        lambda x, given: nn.cross_entropy(x, given.labels, weight=given.class_weight, label_smoothing=0.2),
    ),
    "cross_entropy_soft": ("logits", lambda x, given: nn.cross_entropy(x, given.shares)),
    "cross_entropy_soft_pixels": (
        "pixels",
        lambda x, given: nn.cross_entropy(x, given.pixel_shares, label_smoothing=0.3),
    ),
    "cross_entropy_soft_weighted": (
        "logits",
        lambda x, given: nn.cross_entropy(
            x, given.shares, weight=given.class_weight, label_smoothing=0.1, reduction="none"
        ),
    ),
    "bce": ("logits", lambda x, given: nn.binary_cross_entropy_with_logits(x, given.targets)),
    "bce_weighted": (
        "logits",
        lambda x, given: nn.binary_cross_entropy_with_logits(
            x, given.targets, weight=given.class_weight, pos_weight=engine.flip(given.class_weight, axis=0)
        ),
    ),
    "l1": ("logits", lambda x, given: nn.l1_loss(x, given.other)),
    "mse": ("logits", lambda x, given: nn.mse_loss(x, given.other, reduction="sum")),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_equals_torch(name, torch_reference):
    x_name, loss = LOSSES[name]
    expected, given = torch_reference["losses"][name], Given(torch_reference["loss_inputs"])
    x = getattr(given, x_name)
    value = loss(x, given)
    (gradient,) = engine.gradients(engine.sum(value), [x])
    np.testing.assert_allclose(value.numpy(), expected["value"], rtol=1e-9)
    np.testing.assert_allclose(gradient.numpy(), expected["gradient"], rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y, w: nn.cross_entropy(x, y, sample_weight=w),
        lambda x, y, w: nn.mse_loss(
            x, engine.broadcast_to(y.astype(x.dtype).reshape((-1, 1)), x.shape), sample_weight=w
        ),
    ],
)
def test_rows_of_weight_zero_leave_loss_and_gradient_alone(loss):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(6, 3)), generator.integers(0, 3, 6)
    x[4:] = 1e3
    whole, part = engine.asarray(x), engine.asarray(x[:4])
    padded = loss(whole, engine.asarray(y), engine.asarray(np.array([1, 1, 1, 1, 0, 0], np.float32)))
    alone = loss(part, engine.asarray(y[:4]), None)
    (gradient,) = engine.gradients(padded, [whole])
    (expected,) = engine.gradients(alone, [part])
    np.testing.assert_allclose(padded.numpy(), alone.numpy(), rtol=1e-12)
    np.testing.assert_allclose(gradient.numpy()[:4], expected.numpy(), rtol=1e-12)
    assert not gradient.numpy()[4:].any()


def test_cross_entropy_of_huge_logits_is_finite():
    value = nn.cross_entropy(engine.asarray(np.array([[1e4, -1e4]], np.float32)), engine.asarray(np.array([1])))
    assert value.item() == pytest.approx(2e4)


def test_mismatched_labels_are_refused():
    with pytest.raises(TrainerError, match="integer labels"):
        nn.cross_entropy(engine.zeros((4, 3)), engine.zeros((4,)))
    with pytest.raises(TrainerError, match="one shape"):
        nn.mse_loss(engine.zeros((4, 3)), engine.zeros((4,)))
    with pytest.raises(TrainerError, match="reduction"):
        nn.mse_loss(engine.zeros((4,)), engine.zeros((4,)), reduction="avg")

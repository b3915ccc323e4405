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
    "smooth_l1": ("logits", lambda x, given: nn.smooth_l1_loss(x, given.other)),
    "smooth_l1_beta": ("logits", lambda x, given: nn.smooth_l1_loss(x, given.other, beta=0.3, reduction="sum")),
    "smooth_l1_zero": ("logits", lambda x, given: nn.smooth_l1_loss(x, given.other, beta=0.0)),
    "huber": ("logits", lambda x, given: nn.huber_loss(x, given.other, delta=1.7)),
    "kl_div": ("log_shares", lambda x, given: nn.kl_div(x, given.shares)),
    "kl_div_batchmean": ("log_shares", lambda x, given: nn.kl_div(x, given.shares, reduction="batchmean")),
    "kl_div_log": (
        "log_shares",
        lambda x, given: nn.kl_div(x, engine.log(given.shares), log_target=True, reduction="none"),
    ),
    "ctc": ("frames", lambda x, given: ctc(x, given)),
    "ctc_none": ("frames", lambda x, given: ctc(x, given, reduction="none")),
    "ctc_blank": ("frames", lambda x, given: ctc(x, given, targets=engine.maximum(given.word_labels, 1), blank=0)),
    "triplet": ("rows", lambda x, given: nn.triplet_margin_loss(x, given.others_of_rows, given.logits)),
    "triplet_swap": (
        "rows",
        lambda x, given: nn.triplet_margin_loss(
            x, given.others_of_rows, given.logits, margin=3.0, p=1, swap=True, reduction="none"
        ),
    ),
    "triplet_cubic": (
        "rows",
        lambda x, given: nn.triplet_margin_loss(x, given.others_of_rows, given.logits, margin=4.0, p=3),
    ),
    "cosine": (
        "rows",
        lambda x, given: nn.cosine_embedding_loss(
            x, given.others_of_rows, given.sign_labels, margin=0.1, reduction="none"
        ),
    ),
    "cosine_similarity": ("rows", lambda x, given: nn.cosine_similarity(x, given.others_of_rows)),
    "hinge": ("rows", lambda x, given: nn.hinge_embedding_loss(x[:, 0], given.sign_labels)),
    "margin_ranking": (
        "rows",
        lambda x, given: nn.margin_ranking_loss(x[:, 0], given.others_of_rows[:, 0], given.sign_labels, margin=0.2),
    ),
    "multi_margin": ("rows", lambda x, given: nn.multi_margin_loss(x, given.row_labels)),
    "multi_margin_squared": (
        "rows",
        lambda x, given: nn.multi_margin_loss(x, given.row_labels, p=2, margin=0.5, weight=given.class_weight),
    ),
    "ciou": ("found", lambda x, given: nn.complete_box_iou_loss(x, given.right)),
}


def ctc(x, given, **options):
    targets = options.pop("targets", given.word_labels)
    return nn.ctc_loss(
        nn.functional.log_softmax(x), targets, given.frame_lengths_labels, given.word_lengths_labels, **options
    )


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
    with pytest.raises(TrainerError, match="shapes differ"):
        nn.mse_loss(engine.zeros((4, 3)), engine.zeros((4,)))
    with pytest.raises(TrainerError, match="reduction"):
        nn.mse_loss(engine.zeros((4,)), engine.zeros((4,)), reduction="avg")


@pytest.mark.parametrize("name", ["huber", "kl_div_log", "triplet", "cosine", "multi_margin_squared", "smooth_l1"])
def test_derivatives_of_both_orders_are_those_of_differences(name, torch_reference):
    x_name, loss = LOSSES[name]
    given = Given(torch_reference["loss_inputs"])
    engine.check_gradient(lambda x: loss(x, given), getattr(given, x_name)[:6], order=2)

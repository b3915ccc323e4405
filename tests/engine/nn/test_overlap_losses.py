"""The soft Dice loss against the formula in NumPy, its first two derivatives against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn

IGNORED = 255


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


def dice(logits: np.ndarray, labels: np.ndarray, *, smooth: float = 1.0, over: str = "batch", rows: Any = None) -> Any:
    """The loss of each class (and sample), a class and a sample at a time."""
    count, classes = logits.shape[:2]
    pixels = logits.reshape(count, classes, -1)
    flat = labels.reshape(count, -1)
    if classes == 1:
        chosen, numbers = 1 / (1 + np.exp(-pixels)), [1]
    else:
        exponentials = np.exp(pixels - pixels.max(1, keepdims=True))
        chosen, numbers = exponentials / exponentials.sum(1, keepdims=True), list(range(classes))
    rows = np.ones(count) if rows is None else rows
    sums = np.zeros((count, classes, 2))
    for sample in range(count):
        counts = flat[sample] != IGNORED
        for place, number in enumerate(numbers):
            p, g = chosen[sample, place][counts], (flat[sample][counts] == number).astype(float)
            sums[sample, place] = (p * g).sum(), (p * p).sum() + g.sum()
    both, extent = np.moveaxis(sums, 2, 0)
    if over == "batch":
        both, extent = rows @ both, rows @ extent
    return 1 - (2 * both + smooth) / (extent + smooth)


def given(classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, max(classes, 2), (4, 5, 3))
    labels[generator.random(labels.shape) < 0.2] = IGNORED
    return 2 * generator.normal(size=(4, classes, 5, 3)), labels


@pytest.mark.parametrize("over", ["batch", "sample"])
@pytest.mark.parametrize("classes", [1, 3])
def test_dice_is_the_formula(classes, over):
    logits, labels = given(classes)
    for smooth in (0.0, 1.0):
        options = {"ignore_index": IGNORED, "smooth": smooth, "over": over}
        ours = nn.dice_loss(engine.asarray(logits), engine.asarray(labels), reduction="none", **options)
        expected = dice(logits, labels, smooth=smooth, over=over)
        np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-12)
        mean = nn.dice_loss(engine.asarray(logits), engine.asarray(labels), **options)
        np.testing.assert_allclose(mean.numpy(), expected.mean(), rtol=1e-12)


def test_classes_have_weights_and_rows_that_fill_a_batch_count_for_nothing():
    logits, labels = given()
    rows, weight = np.array([1.0, 1, 0, 1]), np.array([1.0, 3.0, 0.5])
    logits[2] = 1e3
    for over in ("batch", "sample"):
        ours = nn.dice_loss(
            engine.asarray(logits), engine.asarray(labels), weight=engine.asarray(weight), ignore_index=IGNORED,
            over=over, sample_weight=engine.asarray(rows),
        )  # fmt: skip
        kept = rows > 0
        losses = dice(logits[kept], labels[kept], over=over).reshape(-1, 3)
        np.testing.assert_allclose(ours.numpy(), np.average(losses.mean(0), weights=weight), rtol=1e-12)


def test_a_class_that_is_nowhere_and_not_predicted_costs_nothing():
    labels = np.zeros((1, 4, 4), np.int64)
    logits = np.zeros((1, 2, 4, 4)) + np.array([60.0, -60.0])[None, :, None, None]
    loss = nn.dice_loss(engine.asarray(logits), engine.asarray(labels), reduction="none")
    np.testing.assert_allclose(loss.numpy(), 0, atol=1e-12)


@pytest.mark.parametrize("over", ["batch", "sample"])
@pytest.mark.parametrize("classes", [1, 3])
def test_gradients_of_dice_are_those_of_finite_differences(classes, over):
    logits, labels = given(classes)
    probe = np.random.default_rng(1).normal(size=logits.shape)

    def first(values):
        x = engine.asarray(values)
        (gradient,) = engine.gradients(nn.dice_loss(x, engine.asarray(labels), ignore_index=IGNORED, over=over), [x])
        return x, gradient

    x, gradient = first(logits)
    (second,) = engine.gradients(engine.sum(gradient * engine.asarray(probe)), [x])
    step = 1e-5
    for place in np.random.default_rng(2).choice(logits.size, 12, replace=False):
        moved = [logits.copy(), logits.copy()]
        for values, sign in zip(moved, (1, -1), strict=True):
            values.flat[place] += sign * step
        ends = [dice(values, labels, over=over).mean() for values in moved]
        np.testing.assert_allclose(gradient.numpy().flat[place], (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-9)
        slopes = [(first(values)[1].numpy() * probe).sum() for values in moved]
        np.testing.assert_allclose(
            second.numpy().flat[place], (slopes[0] - slopes[1]) / (2 * step), rtol=1e-5, atol=1e-9
        )


def test_a_compiled_step_equals_the_reference():
    logits, labels = given()
    found = []
    for device in ("cpu", "reference"):
        with engine.device(device):
            step = engine.trace(lambda x, y: engine.gradients(nn.dice_loss(x, y, ignore_index=IGNORED), [x])[0])
            found.append(step(logits.astype(np.float32), labels.astype(np.uint8)).numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-8)


def test_what_does_not_fit_is_refused():
    with pytest.raises(TrainerError, match="integer labels"):
        nn.dice_loss(engine.zeros((4, 3, 2)), engine.zeros((4, 2)))
    labels = engine.asarray(np.zeros((4, 2), np.int64))
    with pytest.raises(TrainerError, match="batch or sample"):
        nn.dice_loss(engine.zeros((4, 3, 2)), labels, over="image")
    with pytest.raises(TrainerError, match="reduction"):
        nn.dice_loss(engine.zeros((4, 3, 2)), labels, reduction="avg")


def test_tversky_loss_is_the_ratio_of_its_areas():
    random = np.random.default_rng(5)
    logits, labels = random.normal(size=(3, 4, 5, 2)), random.integers(0, 4, (3, 5, 2))
    labels[0, 0, 0] = -100
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    losses = []
    for number in range(4):
        kept = labels != -100
        g, own = (labels == number)[kept], p[:, number][kept]
        both, false, missed = own[g].sum(), own[~g].sum(), (1 - own)[g].sum()
        losses.append((1 - (both + 1) / (both + 0.2 * false + 0.8 * missed + 1)) ** 0.75)
    found = nn.tversky_loss(
        engine.asarray(logits), engine.asarray(labels), alpha=0.2, beta=0.8, gamma=0.75, reduction="none"
    )
    np.testing.assert_allclose(found.numpy(), losses, rtol=1e-10)


def _lovasz(errors, right):
    """The sum over sorted errors of what each adds to the Jaccard loss of the set of those before it, set by set."""
    order = np.argsort(-errors, kind="stable")
    total, chosen, before = 0.0, np.zeros(errors.size, bool), 0.0
    for place in order:
        chosen[place] = True  # mispredicted: IoU of the right places against right with these exchanged
        predicted = right ^ chosen
        jaccard = 1 - (right & predicted).sum() / (right | predicted).sum()
        total, before = total + errors[place] * (jaccard - before), jaccard
    return total


@pytest.mark.parametrize("over", ["batch", "sample"])
def test_lovasz_loss_is_the_extension_of_the_jaccard_loss(over):
    random = np.random.default_rng(6)
    logits, labels = random.normal(size=(2, 4, 3, 3)), random.integers(0, 3, (2, 3, 3))
    labels[0, 0, 0] = -100
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    losses = []
    for cut in [slice(None)] if over == "batch" else [slice(0, 1), slice(1, 2)]:
        for number in range(4):
            kept = labels[cut] != -100
            right = (labels[cut] == number)[kept]
            if right.any():
                losses.append(_lovasz(np.abs(right - p[cut][:, number][kept]), right))
    found = nn.lovasz_loss(engine.asarray(logits), engine.asarray(labels), over=over)
    np.testing.assert_allclose(found.numpy(), np.mean(losses), rtol=1e-10)


def test_lovasz_loss_of_one_class_is_that_of_the_hinge():
    random = np.random.default_rng(7)
    logits, labels = random.normal(size=(2, 1, 7)), random.integers(0, 2, (2, 7))
    labels[1, :2] = -100
    kept = labels != -100
    right = labels[kept] == 1
    errors = np.maximum(0, 1 - logits[:, 0][kept] * np.where(right, 1, -1))
    found = nn.lovasz_loss(engine.asarray(logits), engine.asarray(labels))
    np.testing.assert_allclose(found.numpy(), _lovasz(errors, right), rtol=1e-10)


@pytest.mark.parametrize("loss", [nn.tversky_loss, nn.lovasz_loss])
def test_derivatives_of_overlap_losses_are_those_of_differences(loss):
    random = np.random.default_rng(8)
    logits, labels = random.normal(size=(2, 3, 4)), random.integers(0, 3, (2, 4))
    engine.check_gradient(lambda x: loss(x, engine.asarray(labels)), logits, order=2)


def test_lovasz_loss_without_a_label_is_zero():
    labels = engine.full((2, 3), -100, dtype=engine.int64)
    assert nn.lovasz_loss(engine.ones((2, 4, 3)), labels).item() == 0

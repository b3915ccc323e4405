"""Log loss, errors, and how alike images are: against scikit-learn, scikit-image and NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from sklearn import metrics as scikit

from tests.metrics.measuring import measured, split_measured
from trainer import TrainerError
from trainer.metrics.errors import MeanAbsoluteError, MeanSquaredError, RootMeanSquaredError
from trainer.metrics.images import Psnr, Ssim
from trainer.metrics.log_loss import BitsPerCharacter, LogLoss, Perplexity


def softmax(logits: np.ndarray) -> np.ndarray:
    exponents = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return np.asarray(exponents / exponents.sum(1, keepdims=True))


@pytest.mark.parametrize("given", ["logits", "scores"])
def test_log_loss_is_scikit_learns_in_any_batches(given: str) -> None:
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(50, 4)).astype(np.float32), random.integers(0, 4, 50)
    values = logits if given == "logits" else softmax(logits).astype(np.float32)
    want = scikit.log_loss(labels, softmax(logits))
    for sizes in ((50,), (20, 20, 10)):
        found = split_measured(LogLoss(), sizes, **{given: values}, labels=labels)[""]
        assert found == pytest.approx(want, rel=1e-6)


def test_binary_log_loss_keeps_sure_probabilities_from_infinity() -> None:
    scores, labels = np.array([0.2, 0.9, 1.0, 0.0], np.float32), np.array([0, 1, 0, 0])
    want = scikit.log_loss(labels, np.stack([1 - scores, scores], axis=1))
    assert measured(LogLoss(), scores=scores, labels=labels)[""] == pytest.approx(want, rel=1e-6)
    logits = np.array([-1.0, 300.0, 2.0], np.float32)
    want = np.mean([math.log1p(math.exp(-1)), 300.0, math.log1p(math.exp(-2))])
    assert measured(LogLoss(), logits=logits, labels=np.array([0, 0, 1]))[""] == pytest.approx(want, rel=1e-7)


def test_log_loss_of_many_labels_is_the_mean_over_classes() -> None:
    random = np.random.default_rng(1)
    scores, hot = random.random((20, 3)).astype(np.float32), random.integers(0, 2, (20, 3)).astype(np.float32)
    want = np.mean([scikit.log_loss(hot[:, number], scores[:, number]) for number in range(3)])
    assert measured(LogLoss(), scores=scores, labels_hot=hot)[""] == pytest.approx(want, rel=1e-6)


def test_perplexity_is_over_all_tokens_that_count() -> None:
    random = np.random.default_rng(2)
    logits, labels = random.normal(size=(4, 7, 6)).astype(np.float32), random.integers(0, 7, (4, 6))
    labels[:, 4:] = -1
    flat = np.moveaxis(logits, 1, -1)[:, :4].reshape(-1, 7)
    want = math.exp(scikit.log_loss(labels[:, :4].ravel(), softmax(flat), labels=range(7)))
    assert measured(Perplexity(), logits=logits, labels=labels)[""] == pytest.approx(want, rel=1e-6)


def test_bits_per_character_divide_by_the_characters_of_the_tokens_that_count() -> None:
    random = np.random.default_rng(4)
    logits, labels = random.normal(size=(3, 7, 5)).astype(np.float32), random.integers(0, 7, (3, 5))
    characters, weight = random.integers(0, 6, (3, 5)).astype(np.float32), np.array([1, 1, 0], np.float32)
    labels[0, 2:] = -1
    probabilities = softmax(np.moveaxis(logits, 1, -1).reshape(-1, 7)).reshape(3, 5, 7)
    bits = -np.log2(np.take_along_axis(probabilities, np.maximum(labels, 0)[:, :, None], axis=2)[..., 0])
    counted = (labels >= 0) & (weight > 0)[:, None]
    given = {"logits": logits, "labels": labels, "weight": weight}
    assert measured(BitsPerCharacter(), **given)[""] == pytest.approx(bits[counted].mean(), rel=1e-6)
    want = bits[counted].sum() / characters[counted].sum()
    assert measured(BitsPerCharacter(), **given, characters=characters)[""] == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (MeanAbsoluteError, scikit.mean_absolute_error),
        (MeanSquaredError, scikit.mean_squared_error),
        (RootMeanSquaredError, scikit.root_mean_squared_error),
    ],
)
def test_errors_are_scikit_learns_in_any_batches(metric: Any, expected: Any) -> None:
    random = np.random.default_rng(3)
    predicted, target = random.normal(size=(2, 31)).astype(np.float32)
    want = expected(target.astype(np.float64), predicted.astype(np.float64))
    for sizes, order in (((31,), (0,)), ((12, 12, 7), (2, 0, 1))):
        found = split_measured(metric(), sizes, order=order, predicted=predicted, target=target)[""]
        assert found == pytest.approx(want, rel=1e-14)
    assert math.isnan(measured(metric(), np.zeros(31, np.float32), predicted=predicted, target=target)[""])


def pictures(images: int, channels: int, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    ramp = np.linspace(0, 1, 17 * 23).reshape(17, 23)
    target = np.clip(ramp + 0.2 * random.random((images, channels, 17, 23)), 0, 1).astype(np.float32)
    noise = random.normal(size=target.shape) * np.linspace(0.02, 0.2, images)[:, None, None, None]
    return np.clip(target + noise, 0, 1).astype(np.float32), target


def test_psnr_is_scikit_images_averaged_over_images() -> None:
    predicted, target = pictures(5, 3)
    each = [peak_signal_noise_ratio(t.astype(np.float64), p.astype(np.float64), data_range=1)
            for p, t in zip(predicted, target, strict=True)]  # fmt: skip
    for sizes in ((5,), (2, 2, 1)):
        found = split_measured(Psnr(), sizes, predicted=predicted, target=target)[""]
        assert found == pytest.approx(np.mean(each), rel=1e-12)


def test_psnr_of_bytes_and_of_equal_images() -> None:
    random = np.random.default_rng(5)
    predicted, target = random.integers(0, 256, (2, 1, 1, 8, 8), dtype=np.uint8)
    want = peak_signal_noise_ratio(target[0], predicted[0], data_range=255)
    assert measured(Psnr(255), predicted=predicted, target=target)[""] == pytest.approx(want, rel=1e-12)
    assert measured(Psnr(255), predicted=target, target=target)[""] == math.inf


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("scale", [1, 255])
def test_ssim_is_scikit_images_of_gaussian_windows(channels: int, scale: int) -> None:
    predicted, target = (values * np.float32(scale) for values in pictures(4, channels))
    options = {"gaussian_weights": True, "use_sample_covariance": False, "data_range": scale, "channel_axis": 0}
    each = [structural_similarity(t.astype(np.float64), p.astype(np.float64), **options)
            for p, t in zip(predicted, target, strict=True)]  # fmt: skip
    for sizes in ((4,), (3, 1)):
        found = split_measured(Ssim(scale), sizes, predicted=predicted, target=target)[""]
        assert found == pytest.approx(np.mean(each), rel=1e-10)
    assert measured(Ssim(scale), predicted=target, target=target)[""] == pytest.approx(1.0, rel=1e-12)


def test_shapes_that_do_not_fit_are_refused() -> None:
    images = np.zeros((2, 1, 8, 8), np.float32)
    with pytest.raises(TrainerError, match="least 11 by 11"):
        measured(Ssim(), predicted=images, target=images)
    with pytest.raises(TrainerError, match="the shapes of prediction and target"):
        measured(MeanSquaredError(), predicted=images, target=images[:, :, 0])

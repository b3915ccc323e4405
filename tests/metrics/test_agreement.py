"""Figures of confusion matrices against scikit-learn."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

from tests.metrics.measuring import measured, split_measured
from trainer import TrainerError
from trainer.metrics.agreement import BalancedAccuracy, Hamming, Kappa, Matthews

FIGURES: list[tuple[Any, Any]] = [
    (BalancedAccuracy(), sk.balanced_accuracy_score),
    (BalancedAccuracy(adjusted=True), lambda *pair: sk.balanced_accuracy_score(*pair, adjusted=True)),
    (Matthews(), sk.matthews_corrcoef),
    (Kappa(), lambda *pair: sk.cohen_kappa_score(*pair, labels=range(5))),
    (Kappa("linear"), lambda *pair: sk.cohen_kappa_score(*pair, labels=range(5), weights="linear")),
    (Kappa("quadratic"), lambda *pair: sk.cohen_kappa_score(*pair, labels=range(5), weights="quadratic")),
    (Hamming(), sk.hamming_loss),
]


def scored(rows: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Five classes, of which the last never occurs and is sometimes chosen."""
    random = np.random.default_rng(seed)
    scores = random.random((rows, 5)).astype(np.float32)
    labels = np.where(random.random(rows) < 0.5, scores[:, :4].argmax(1), random.integers(0, 4, rows))
    return scores, labels


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize(("metric", "expected"), FIGURES)
def test_figures_are_scikit_learns_in_any_batches_and_order(metric: Any, expected: Any) -> None:
    scores, labels = scored()
    whole = measured(metric, scores=scores, labels=labels)[""]
    assert whole == pytest.approx(expected(labels, scores.argmax(1)), rel=1e-12)
    for sizes, order in (((25, 25, 10), (2, 0, 1)), ((1, 59), (1, 0))):
        assert split_measured(metric, sizes, order=order, scores=scores, labels=labels)[""] == whole


@pytest.mark.parametrize(("metric", "expected"), [(Matthews(0.7), sk.matthews_corrcoef),
                                                  (Kappa(threshold=0.7), sk.cohen_kappa_score),
                                                  (Hamming(0.7), sk.hamming_loss)])  # fmt: skip
def test_binary_figures_have_a_threshold(metric: Any, expected: Any) -> None:
    random = np.random.default_rng(1)
    scores, labels = random.random(50).astype(np.float32), random.integers(0, 2, 50)
    assert measured(metric, scores=scores, labels=labels)[""] == pytest.approx(
        expected(labels, scores >= 0.7), rel=1e-12
    )


@pytest.mark.parametrize(("metric", "expected"), FIGURES)
def test_pixels_are_examples_but_for_the_ignored(metric: Any, expected: Any) -> None:
    random = np.random.default_rng(2)
    scores = random.random((2, 5, 6, 7)).astype(np.float32)
    labels = random.integers(0, 5, (2, 6, 7)).astype(np.uint8)
    labels[:, :2] = 255
    pair = labels[labels != 255], scores.argmax(1)[labels != 255]
    assert measured(metric, scores=scores, labels=labels)[""] == pytest.approx(expected(*pair), rel=1e-12)


def test_each_of_many_labels_counts() -> None:
    random = np.random.default_rng(3)
    scores, hot = random.random((40, 6)).astype(np.float32), (random.random((40, 6)) < 0.5).astype(np.float32)
    want = sk.hamming_loss(hot, scores >= 0.5)
    assert split_measured(Hamming(), (30, 10), scores=scores, labels_hot=hot)[""] == pytest.approx(want, rel=1e-12)


def test_one_class_alone_agrees_with_nothing() -> None:
    scores, labels = np.eye(3, dtype=np.float32)[[1, 1, 1]], np.array([1, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert measured(Matthews(), scores=scores, labels=labels)[""] == sk.matthews_corrcoef(labels, [1, 1, 1]) == 0
    assert math.isnan(measured(Kappa(), scores=scores, labels=labels)[""])
    assert measured(BalancedAccuracy(), scores=scores, labels=labels)[""] == 1


@pytest.mark.parametrize("metric", [metric for metric, _ in FIGURES])
def test_nothing_counted_is_not_a_number(metric: Any) -> None:
    scores, labels = scored(4)
    assert math.isnan(measured(metric, np.zeros(4, np.float32), scores=scores, labels=labels)[""])


@pytest.mark.parametrize("metric", [Matthews(), Hamming()])
def test_labels_that_are_no_class_are_refused(metric: Any) -> None:
    with pytest.raises(TrainerError, match="not a class"):
        measured(metric, scores=np.zeros((2, 3), np.float32), labels=np.array([0, 3]))

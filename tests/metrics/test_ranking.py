"""Areas under curves against scikit-learn: ties, missing classes, averages, any batches in any order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.metrics.measuring import measured, split_measured
from trainer import TrainerError
from trainer.metrics.folding import NotANumber
from trainer.metrics.ranking import AveragePrecision, RocAuc

BOTH = [(RocAuc, roc_auc_score), (AveragePrecision, average_precision_score)]


def binary(rows: int = 60, levels: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of few levels, so that many are equal."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, rows)
    return (np.round((random.random(rows) + 0.3 * labels) * levels) / levels / 2).astype(np.float32), labels


def many(rows: int = 80, classes: int = 4, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of classes, not quite wrong, with ties; every class occurs."""
    random = np.random.default_rng(seed)
    labels = np.append(np.arange(classes), random.integers(0, classes, rows - classes))
    scores = np.round(random.random((rows, classes)) + np.eye(classes)[labels] * 0.4, 1)
    return (scores / scores.sum(1, keepdims=True)).astype(np.float32), labels


@pytest.mark.parametrize(("metric", "expected"), BOTH)
def test_binary_areas_are_scikit_learns_in_any_batches_and_order(metric: Any, expected: Any) -> None:
    scores, labels = binary()
    want = expected(labels, scores)
    whole = measured(metric(), scores=scores, labels=labels)[""]
    assert whole == pytest.approx(want, rel=1e-12)
    for sizes, order in (((20, 20, 20), (2, 0, 1)), ((1, 59), (1, 0)), ((60,), (0,))):
        assert split_measured(metric(), sizes, order=order, scores=scores, labels=labels)[""] == whole


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
@pytest.mark.parametrize(("metric", "expected"), BOTH)
def test_areas_of_one_class_against_the_rest_are_scikit_learns(metric: Any, expected: Any, average: str) -> None:
    scores, labels = many()
    hot = np.eye(4)[labels]
    want = expected(hot, scores.astype(np.float64), average=average)
    assert measured(metric(average), scores=scores, labels=labels)[""] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
@pytest.mark.parametrize(("metric", "expected"), BOTH)
def test_areas_of_many_labels_are_scikit_learns(metric: Any, expected: Any, average: str) -> None:
    random = np.random.default_rng(4)
    hot = (random.random((50, 3)) < 0.4).astype(np.float32)
    scores = np.round(random.random((50, 3)) * 0.7 + 0.3 * hot, 1).astype(np.float32)
    want = expected(hot, scores.astype(np.float64), average=average)
    assert measured(metric(average), scores=scores, labels_hot=hot)[""] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_areas_of_pairs_are_scikit_learns(average: Any) -> None:
    scores, labels = many()
    want = roc_auc_score(labels, scores, multi_class="ovo", average=average)
    found = measured(RocAuc(average, pairs=True), scores=scores, labels=labels)[""]
    assert found == pytest.approx(want, rel=1e-12)


def test_logits_become_probabilities_before_classes_are_ranked() -> None:
    random = np.random.default_rng(5)
    logits = (random.normal(size=(60, 3)) * 2).astype(np.float32)
    labels = random.integers(0, 3, 60)
    exponents = np.exp(logits.astype(np.float64))
    want = roc_auc_score(labels, exponents / exponents.sum(1, keepdims=True), multi_class="ovr")
    assert measured(RocAuc(), logits=logits, labels=labels)[""] == pytest.approx(want, rel=1e-12)


def test_equal_scores_rank_nothing() -> None:
    labels = np.array([0, 1, 1, 0, 1])
    assert measured(RocAuc(), scores=np.full(5, 0.25, np.float32), labels=labels)[""] == 0.5
    assert measured(AveragePrecision(), scores=np.full(5, 0.25, np.float32), labels=labels)[""] == 0.6


def test_a_class_that_is_missing_does_not_count() -> None:
    scores, labels = many()
    kept = labels != 2
    areas = [roc_auc_score(labels[kept] == number, scores[kept, number]) for number in (0, 1, 3)]
    assert measured(RocAuc(), scores=scores[kept], labels=labels[kept])[""] == pytest.approx(np.mean(areas), rel=1e-12)
    assert math.isnan(measured(RocAuc(), scores=scores[:1, 0], labels=np.array([1]))[""])
    assert math.isnan(measured(AveragePrecision(), scores=scores[:1, 0], labels=np.array([0]))[""])


def test_weights_count_as_scikit_learns_do_and_nothing_is_nan() -> None:
    scores, labels = binary()
    weight = np.random.default_rng(6).integers(0, 3, 60).astype(np.float32)
    want = roc_auc_score(labels, scores, sample_weight=weight)
    assert measured(RocAuc(), weight, scores=scores, labels=labels)[""] == pytest.approx(want, rel=1e-12)
    assert math.isnan(measured(RocAuc(), np.zeros(60, np.float32), scores=scores, labels=labels)[""])


def test_pixels_are_examples_but_for_the_ignored() -> None:
    random = np.random.default_rng(7)
    scores = random.random((2, 3, 4, 4)).astype(np.float32)
    labels = random.integers(0, 3, (2, 4, 4)).astype(np.uint8)
    labels[0, 0] = 255
    flat, kept = np.moveaxis(scores, 1, -1).reshape(-1, 3), labels.ravel() != 255
    want = average_precision_score(np.eye(3)[labels.ravel()[kept]], flat[kept])
    assert measured(AveragePrecision(), scores=scores, labels=labels)[""] == pytest.approx(want, rel=1e-12)


def test_a_score_that_is_no_number_is_refused_with_its_row() -> None:
    scores, labels = binary(6)
    scores[4] = np.nan
    with pytest.raises(NotANumber) as refused:
        measured(RocAuc(), scores=scores, labels=labels)
    assert (refused.value.part, refused.value.row) == ("scores", 4)
    weight = (np.arange(6) != 4).astype(np.float32)
    assert not math.isnan(measured(RocAuc(), weight, scores=scores, labels=labels)[""])


def test_a_label_that_is_no_class_is_refused() -> None:
    with pytest.raises(TrainerError, match="not a class"):
        measured(RocAuc(), scores=np.zeros((2, 3), np.float32), labels=np.array([0, 3]))

"""Precision and its kin against scikit-learn: kinds of tasks, averages, thresholds, missing classes, any batches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as scikit

from tests.metrics.measuring import measured, split_measured, state_of
from trainer import TrainerError
from trainer.metrics.confusion import ConfusionMatrix
from trainer.metrics.counts import Dice, FBeta, IoU, Precision, Recall, Specificity

AVERAGES = ["macro", "micro", "weighted"]
KINDS: list[tuple[Any, Any]] = [
    (Precision, scikit.precision_score),
    (Recall, scikit.recall_score),
    (FBeta, scikit.f1_score),
    (Dice, scikit.f1_score),
    (IoU, scikit.jaccard_score),
    (lambda **options: FBeta(beta=2.0, **options), lambda *given, **more: scikit.fbeta_score(*given, beta=2.0, **more)),
]


def classes(rows: int = 70, count: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, count)).astype(np.float32)
    return logits, np.where(random.random(rows) < 0.5, logits.argmax(1), random.integers(0, count, rows))


def many_labels(rows: int = 60, count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    scores = random.random((rows, count)).astype(np.float32)
    return scores, (random.random((rows, count)) < scores).astype(np.float32)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize(("metric", "expected"), KINDS)
def test_of_classes_they_are_scikit_learns_in_any_batches(metric: Any, expected: Any, average: str) -> None:
    logits, labels = classes()
    want = expected(labels, logits.argmax(1), average=average)
    whole = measured(metric(average=average), logits=logits, labels=labels)[""]
    assert whole == pytest.approx(want, rel=1e-12)
    for sizes, order in (((30, 30, 10), (2, 0, 1)), ((1, 69), (1, 0))):
        found = split_measured(metric(average=average), sizes, order=order, logits=logits, labels=labels)[""]
        assert found == whole


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize(("metric", "expected"), KINDS)
def test_of_many_labels_they_are_scikit_learns(metric: Any, expected: Any, average: str) -> None:
    scores, hot = many_labels()
    want = expected(hot, scores >= 0.4, average=average)
    found = measured(metric(average=average, threshold=0.4), scores=scores, labels_hot=hot)[""]
    assert found == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(("metric", "expected"), KINDS)
def test_of_two_classes_they_are_scikit_learns(metric: Any, expected: Any) -> None:
    scores, hot = many_labels()
    want = expected(hot[:, 0], scores[:, 0] >= 0.5)
    assert measured(metric(), scores=scores[:, 0], labels=hot[:, 0].astype(np.int64))[""] == pytest.approx(want)


@pytest.mark.parametrize("average", AVERAGES)
def test_the_greatest_scores_may_be_chosen_whatever_they_are(average: Any) -> None:
    scores, hot = many_labels()
    chosen = np.argsort(np.argsort(-scores, axis=1), axis=1) < 2
    want = scikit.precision_score(hot, chosen, average=average)
    assert measured(Precision(average, top_k=2), scores=scores, labels_hot=hot)[""] == pytest.approx(want, rel=1e-12)
    logits, labels = classes()
    chosen = np.argsort(np.argsort(-logits, axis=1), axis=1) < 3
    want = scikit.recall_score(np.eye(5)[labels], chosen, average=average)
    assert measured(Recall(average, top_k=3), logits=logits, labels=labels)[""] == pytest.approx(want, rel=1e-12)


def test_specificity_is_the_recall_of_the_rest() -> None:
    logits, labels = classes()
    chosen = logits.argmax(1)
    want = [scikit.recall_score(labels != number, chosen != number) for number in range(5)]
    assert measured(Specificity(), logits=logits, labels=labels)[""] == pytest.approx(np.mean(want), rel=1e-12)


@pytest.mark.parametrize(("metric", "expected"), KINDS)
def test_classes_that_neither_occur_nor_are_chosen_do_not_count(metric: Any, expected: Any) -> None:
    logits, labels = classes(12)
    logits[:, 3:] = -9
    labels[labels > 2] = 0
    labels[labels == 2] = 1  # class 2 is chosen and never occurs
    want = expected(labels, logits.argmax(1), average="macro", zero_division=0)
    assert measured(metric(), logits=logits, labels=labels)[""] == pytest.approx(want, rel=1e-12)


def test_mean_iou_of_pixels_leaves_out_the_ignored_and_the_excluded() -> None:
    random = np.random.default_rng(3)
    logits = random.normal(size=(3, 4, 6, 5)).astype(np.float32)
    labels = random.integers(0, 4, (3, 6, 5)).astype(np.uint8)
    labels[:, 2] = 255
    kept = labels.ravel() != 255
    by_class = scikit.jaccard_score(labels.ravel()[kept], logits.argmax(1).ravel()[kept], average=None)
    assert measured(IoU(), logits=logits, labels=labels)[""] == pytest.approx(by_class.mean(), rel=1e-12)
    without = measured(IoU(exclude=(0,)), logits=logits, labels=labels)[""]
    assert without == pytest.approx(by_class[1:].mean(), rel=1e-12)


def test_the_table_by_class_is_scikit_learns() -> None:
    logits, labels = classes()
    metric = Precision()
    (report,) = metric.reports(state_of(metric, {"logits": logits, "labels": labels})).values()
    want = scikit.precision_recall_fscore_support(labels, logits.argmax(1))
    assert report.kind == "per_class"
    np.testing.assert_allclose(report.data["columns"]["precision"], want[0], rtol=1e-12)
    np.testing.assert_array_equal(report.data["columns"]["support"], want[3])


@pytest.mark.parametrize("kind", ["many", "two"])
def test_the_confusion_matrix_is_scikit_learns(kind: str) -> None:
    logits, labels = classes() if kind == "many" else classes(count=2)
    given = logits if kind == "many" else logits[:, 1] - logits[:, 0]
    metric = ConfusionMatrix()
    (report,) = metric.reports(state_of(metric, {"logits": given, "labels": labels})).values()
    np.testing.assert_array_equal(report.data["counts"], scikit.confusion_matrix(labels, logits.argmax(1)))
    assert report.data["counts"].dtype == np.int64


def test_nothing_counted_is_nan_and_labels_that_are_no_class_are_refused() -> None:
    logits, labels = classes()
    for average in AVERAGES:
        nothing = measured(Precision(average), np.zeros(70, np.float32), logits=logits, labels=labels)
        assert math.isnan(nothing[""])
    for metric in (Precision(), ConfusionMatrix()):
        with pytest.raises(TrainerError, match="not a class"):
            measured(metric, logits=logits, labels=labels + 5)

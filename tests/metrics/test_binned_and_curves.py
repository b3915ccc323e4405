"""Binned areas and curves against scikit-learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as scikit

from tests.metrics.measuring import measured, split_measured, state_of
from trainer.metrics.binned_curves import AveragePrecision, RocAuc
from trainer.metrics.curves import PrecisionRecallCurve, RocCurve


def many(rows: int = 90, classes: int = 3, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = np.append(np.arange(classes), random.integers(0, classes, rows - classes))
    scores = random.random((rows, classes)) + np.eye(classes)[labels] * 0.3
    return (scores / scores.sum(1, keepdims=True)).astype(np.float32), labels


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
@pytest.mark.parametrize(
    ("metric", "expected"), [(RocAuc, scikit.roc_auc_score), (AveragePrecision, scikit.average_precision_score)]
)
def test_binned_areas_are_the_exact_ones_of_rounded_scores(metric: Any, expected: Any, average: str) -> None:
    scores, labels = many()
    rounded = np.floor(scores * np.float32(20)) / 20
    want = expected(np.eye(3)[labels], rounded, average=average)
    whole = measured(metric(average, bins=20), scores=scores, labels=labels)[""]
    assert whole == pytest.approx(want, rel=1e-12)
    pieces = split_measured(metric(average, bins=20), (40, 40, 10), order=(1, 2, 0), scores=scores, labels=labels)
    assert pieces[""] == whole


def test_many_bins_come_near_to_the_exact_area() -> None:
    scores, labels = many(400)
    want = scikit.roc_auc_score(np.eye(3)[labels], scores)
    assert measured(RocAuc(bins=10_000), scores=scores, labels=labels)[""] == pytest.approx(want, abs=1e-3)


@pytest.mark.parametrize("levels", [5, 1000])
def test_the_roc_curve_is_scikit_learns(levels: int) -> None:
    random = np.random.default_rng(3)
    labels = random.integers(0, 2, 80)
    scores = (np.round((random.random(80) + 0.4 * labels) * levels) / levels / 2).astype(np.float32)
    metric = RocCurve()
    (report,) = metric.reports(state_of(metric, {"scores": scores, "labels": labels})).values()
    (curve,) = report.data["curves"]
    x, y, thresholds = scikit.roc_curve(labels, scores)
    np.testing.assert_allclose(curve["x"], x, rtol=1e-12)
    np.testing.assert_allclose(curve["y"], y, rtol=1e-12)
    np.testing.assert_allclose(curve["thresholds"], thresholds)


@pytest.mark.parametrize("levels", [5, 1000])
def test_the_precision_recall_curve_is_scikit_learns(levels: int) -> None:
    random = np.random.default_rng(3)
    labels = random.integers(0, 2, 80)
    scores = (np.round((random.random(80) + 0.4 * labels) * levels) / levels / 2).astype(np.float32)
    metric = PrecisionRecallCurve()
    (report,) = metric.reports(state_of(metric, {"scores": scores, "labels": labels})).values()
    (curve,) = report.data["curves"]
    precision, recall, thresholds = scikit.precision_recall_curve(labels, scores)
    kept = np.flatnonzero(recall[:-1] == 1)[-1]  # what scikit-learn has below the threshold that reaches all
    np.testing.assert_allclose(curve["x"], recall[kept:-1][::-1], rtol=1e-12)
    np.testing.assert_allclose(curve["y"], precision[kept:-1][::-1], rtol=1e-12)
    np.testing.assert_allclose(curve["thresholds"], thresholds[kept:][::-1])


def test_long_curves_are_thinned_out_between_their_ends() -> None:
    scores, labels = many(400)
    metric = RocCurve(points=10)
    (report,) = metric.reports(state_of(metric, {"scores": scores, "labels": labels})).values()
    for curve in report.data["curves"]:
        assert [len(values) for values in curve.values()] == [10, 10, 10]
        assert (curve["x"][0], curve["y"][0], curve["x"][-1], curve["y"][-1]) == (0, 0, 1, 1)


def test_a_class_that_is_missing_has_a_curve_of_nan() -> None:
    scores, labels = many(4)
    metric = RocCurve()
    (report,) = metric.reports(state_of(metric, {"scores": scores[:2], "labels": labels[:2]})).values()
    assert np.isnan(report.data["curves"][2]["y"]).all() and not np.isnan(report.data["curves"][0]["y"]).any()
    assert math.isnan(measured(RocAuc(), np.zeros(4, np.float32), scores=scores, labels=labels)[""])

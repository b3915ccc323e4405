"""The calibration error against its formula in float64, and a table worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.metrics.measuring import measured, split_measured, state_of
from trainer.metrics.calibration import CalibrationError


def by_formula(confidence: np.ndarray, right: np.ndarray, bins: int) -> tuple[float, float]:
    gaps = []
    for number in range(bins):
        inside = (confidence > number / bins) & (confidence <= (number + 1) / bins)
        if inside.any():
            gaps.append((inside.sum(), abs(confidence[inside].mean() - right[inside].mean())))
    return sum(count * gap for count, gap in gaps) / len(confidence), max(gap for _, gap in gaps)


def classes(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    scores = random.dirichlet(np.ones(4) * 0.6, rows).astype(np.float32)
    return scores, np.where(random.random(rows) < 0.6, scores.argmax(1), random.integers(0, 4, rows))


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_the_error_is_the_formulas_in_any_batches(bins: int) -> None:
    scores, labels = classes()
    want, largest = by_formula(scores.max(1).astype(np.float64), scores.argmax(1) == labels, bins)
    for sizes in ((60,), (25, 25, 10)):
        found = split_measured(CalibrationError(bins), sizes, scores=scores, labels=labels)
        assert found == {"": pytest.approx(want, rel=1e-12), "max": pytest.approx(largest, rel=1e-12)}


def test_a_binary_task_is_as_sure_of_the_negative_class() -> None:
    scores = np.array([0.9, 0.15, 0.45, 0.65, 0.5], np.float32)
    labels = np.array([1, 0, 1, 0, 1])
    positive = scores.astype(np.float64)
    want, largest = by_formula(np.maximum(positive, 1 - positive), (scores >= 0.5) == labels, 5)
    found = measured(CalibrationError(5), scores=scores, labels=labels)
    assert found == {"": pytest.approx(want, rel=1e-6), "max": pytest.approx(largest, rel=1e-6)}


def test_a_model_that_is_always_sure_and_right_half_of_the_time_is_off_by_half() -> None:
    scores = np.eye(2, dtype=np.float32)[[0, 0, 1, 1]]
    metric = CalibrationError()
    assert measured(metric, scores=scores, labels=np.array([0, 1, 1, 0])) == {"": 0.5, "max": 0.5}
    diagram = metric.reports(state_of(metric, {"scores": scores, "labels": np.array([0, 1, 1, 0])}))[""].data
    curve = {name: values.tolist() for name, values in diagram["curves"][0].items()}
    assert curve == {"x": [1.0], "y": [0.5], "weight": [4.0]}


def test_nothing_counted_is_not_a_number() -> None:
    scores, labels = classes(3)
    assert math.isnan(measured(CalibrationError(), np.zeros(3, np.float32), scores=scores, labels=labels)[""])

"""Metrics against scikit-learn and NumPy in float64: over whole data sets in uneven batches, with padded rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from trainer import TrainerError, engine
from trainer.metrics import Accuracy, Mean, Metric


@pytest.fixture(autouse=True)
def on_the_reference_device() -> Iterator[None]:
    with engine.device("reference"):
        yield


def finish(metrics: list[Metric]) -> float:
    """What the learner does: adds the sums of all batches, and finishes the totals."""
    totals: dict[str, float] = {}
    for metric in metrics:
        for name, part in metric.partial().items():
            totals[name] = totals.get(name, 0.0) + float(part.numpy())
    return type(metrics[0]).finish(totals)


def padded_batches(*arrays: np.ndarray, sizes: tuple[int, ...], rows: int) -> Iterator[tuple[engine.Tensor, ...]]:
    """Consecutive pieces of the arrays, each filled up to `rows` with a wrong row, and their weights."""
    start = 0
    for size in sizes:
        pieces = [np.concatenate([a[start : start + size], np.repeat(a[:1], rows - size, axis=0)]) for a in arrays]
        weight = (np.arange(rows) < size).astype(np.float32)
        yield tuple(engine.asarray(piece) for piece in [*pieces, weight])
        start += size


def test_accuracy_is_scikit_learns_over_uneven_padded_batches() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(size=(23, 5)).astype(np.float32)
    labels = np.where(random.random(23) < 0.6, logits.argmax(1), random.integers(0, 5, 23)).astype(np.int32)
    batches = padded_batches(logits, labels, sizes=(8, 8, 6, 1), rows=8)
    assert finish([Accuracy(*batch) for batch in batches]) == accuracy_score(labels, logits.argmax(1))


def test_accuracy_of_pixels_counts_each_pixel() -> None:
    random = np.random.default_rng(1)
    logits = random.normal(size=(3, 4, 5, 6)).astype(np.float32)
    labels = random.integers(0, 4, (3, 5, 6)).astype(np.int64)
    weight = np.array([1, 0, 1], np.float32)
    measured = finish([Accuracy(engine.asarray(logits), engine.asarray(labels), engine.asarray(weight))])
    expected = accuracy_score(labels[[0, 2]].ravel(), logits.argmax(1)[[0, 2]].ravel())
    assert measured == pytest.approx(expected, rel=1e-7)


def test_the_first_of_equal_logits_counts() -> None:
    logits = engine.asarray(np.zeros((2, 3), np.float32))
    assert finish([Accuracy(logits, engine.asarray(np.array([0, 1], np.int32)))]) == 0.5


def test_a_mean_over_batches_is_not_the_mean_of_their_means() -> None:
    values = np.array([1, 2, 3, 10, 0.5], np.float32)
    measured = finish([Mean(*batch) for batch in padded_batches(values, sizes=(4, 1), rows=4)])
    assert measured == pytest.approx(np.average(values.astype(np.float64)))
    assert measured != pytest.approx((values[:4].mean() + values[4]) / 2)


def test_a_mean_is_numpys_weighted_average() -> None:
    random = np.random.default_rng(2)
    values, weights = random.normal(size=(7, 3)), random.random(7)
    measured = finish([Mean(engine.asarray(values), engine.asarray(weights))])
    assert measured == pytest.approx(np.average(values, weights=np.tile(weights[:, None], (1, 3))), rel=1e-12)


def test_without_weights_every_value_counts_once() -> None:
    values = np.random.default_rng(3).normal(size=(4, 5))
    assert finish([Mean(engine.asarray(values))]) == pytest.approx(values.mean(), rel=1e-12)


def test_the_value_of_one_batch_is_its_own_ratio() -> None:
    mean = Mean(engine.asarray(np.array([1.0, 5.0, 9.0])), engine.asarray(np.array([1.0, 1.0, 0.0])))
    assert float(mean.value.numpy()) == 3.0


def test_nothing_counted_is_not_a_number() -> None:
    values = engine.asarray(np.ones(3, np.float32))
    assert math.isnan(finish([Mean(values, engine.asarray(np.zeros(3, np.float32)))]))


def test_shapes_that_do_not_fit_are_refused() -> None:
    logits = engine.asarray(np.zeros((4, 3), np.float32))
    with pytest.raises(TrainerError, match=r"labels \[5\] for logits \[4, 3\]"):
        Accuracy(logits, engine.asarray(np.zeros(5, np.int32)))
    with pytest.raises(TrainerError, match=r"weights \[3\] for values \[4\]"):
        Mean(engine.asarray(np.zeros(4)), engine.asarray(np.zeros(3)))

"""The mean of a value over a period, against NumPy in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.metrics import Mean


def finished(*means: Mean) -> float:
    """The value of several batches."""
    state: dict[str, np.ndarray] = {}
    for mean in means:
        state = dict(mean.metric.fold(state, {name: part.numpy() for name, part in mean.partial().items()}))
    return means[0].metric.values(state)[""]


def test_a_mean_over_batches_is_not_the_mean_of_their_means() -> None:
    values, weight = np.array([1, 2, 3, 10, 0.5, 9, 9, 9], np.float32), np.array([1] * 5 + [0] * 3, np.float32)
    mean = finished(*(Mean(engine.asarray(values[at]), engine.asarray(weight[at])) for at in (slice(4), slice(4, 8))))
    assert mean == pytest.approx(np.average(values[:5].astype(np.float64)))
    assert mean != pytest.approx((values[:4].mean() + values[4]) / 2)


def test_a_mean_is_numpys_weighted_average() -> None:
    random = np.random.default_rng(2)
    values, weights = random.normal(size=(7, 3)), random.random(7)
    mean = finished(Mean(engine.asarray(values), engine.asarray(weights)))
    assert mean == pytest.approx(np.average(values, weights=np.tile(weights[:, None], (1, 3))), rel=1e-12)


def test_without_weights_every_value_counts_once() -> None:
    values = np.random.default_rng(3).normal(size=(4, 5))
    assert finished(Mean(engine.asarray(values))) == pytest.approx(values.mean(), rel=1e-12)


def test_the_value_of_one_batch_is_its_own_ratio() -> None:
    mean = Mean(engine.asarray(np.array([1.0, 5.0, 9.0])), engine.asarray(np.array([1.0, 1.0, 0.0])))
    assert float(mean.value.numpy()) == 3.0


def test_nothing_counted_is_not_a_number() -> None:
    assert math.isnan(finished(Mean(engine.asarray(np.ones(3)), engine.asarray(np.zeros(3)))))


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TrainerError, match=r"weights \[3\] for values \[4\]"):
        Mean(engine.asarray(np.zeros(4)), engine.asarray(np.zeros(3)))

"""R², Pearson and Spearman against scikit-learn and SciPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import r2_score

from tests.metrics.measuring import measured, split_measured
from trainer import TrainerError
from trainer.metrics.correlation import R2, Pearson, Spearman, ranks

METRICS = [
    (R2, r2_score),
    (Pearson, lambda target, predicted: stats.pearsonr(target, predicted).statistic),
    (Spearman, lambda target, predicted: stats.spearmanr(target, predicted).statistic),
]


def numbers(rows: int = 40, offset: float = 3.0, seed: int = 0) -> dict[str, np.ndarray]:
    """Few values, so that many are equal, far from 0."""
    random = np.random.default_rng(seed)
    target = np.round(random.normal(size=(rows, 2)), 1) + offset
    return {"predicted": (target + np.round(random.normal(size=(rows, 2)), 1)).astype(np.float32),
            "target": target.astype(np.float32)}  # fmt: skip


def flat(values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return values["target"].astype(np.float64).ravel(), values["predicted"].astype(np.float64).ravel()


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize(("metric", "expected"), METRICS)
def test_correlations_are_the_libraries_in_any_batches_and_order(metric: Any, expected: Any, offset: float) -> None:
    values = numbers(offset=offset)
    want = expected(*flat(values))
    assert measured(metric(), **values)[""] == pytest.approx(want, rel=1e-9)
    for sizes, order in (((40,), (0,)), ((16, 16, 8), (2, 0, 1)), ((1, 39), (1, 0))):
        assert split_measured(metric(), sizes, order=order, **values)[""] == pytest.approx(want, rel=1e-9)


def test_the_order_of_batches_has_no_bit_in_ranks() -> None:
    values = numbers()
    whole = measured(Spearman(), **values)[""]
    assert split_measured(Spearman(), (16, 16, 8), order=(2, 0, 1), **values)[""] == whole


@pytest.mark.parametrize("metric", [R2, Pearson, Spearman])
def test_what_does_not_vary_or_was_not_measured_has_no_value(metric: Any) -> None:
    same = {"predicted": np.arange(4, dtype=np.float32), "target": np.full(4, 2.0, np.float32)}
    assert math.isnan(measured(metric(), **same)[""])
    assert math.isnan(measured(metric(), np.zeros(4, np.float32), **numbers(4))[""])


def test_rows_count_with_their_weight() -> None:
    values = numbers(10)
    weight = np.array([1, 2, 0, 1, 1, 3, 1, 0, 1, 1], np.float32)
    want = r2_score(*flat(values), sample_weight=np.repeat(weight, 2))
    assert measured(R2(), weight, **values)[""] == pytest.approx(want, rel=1e-12)


def test_ranks_of_equal_values_are_their_mean() -> None:
    values = np.array([3.0, 1.0, 3.0, 2.0, 3.0])
    np.testing.assert_array_equal(ranks(values), stats.rankdata(values))


@pytest.mark.parametrize("metric", [R2, Pearson, Spearman])
def test_shapes_that_differ_are_refused(metric: Any) -> None:
    with pytest.raises(TrainerError, match="another shape"):
        measured(metric(), predicted=np.zeros((3, 1), np.float32), target=np.zeros(3, np.float32))

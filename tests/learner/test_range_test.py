"""The learning-rate range test: its rule on known curves, and the test on a task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.learner import Learner
from trainer.learner.range_test import for_range_test, geometric, lowest, smooth
from trainer.learner.rate_trials import FoundRate


def found_by_the_curve(blobs: Any, config: Any, rates: list[float], metric: str = "loss") -> FoundRate:
    return Learner(blobs, for_range_test(config)).find_rate(rates, trial_steps=0, metric=metric)


def test_rates_grow_by_one_factor() -> None:
    np.testing.assert_allclose(geometric(1e-4, 1.0, 5), [1e-4, 1e-3, 1e-2, 1e-1, 1.0])


def test_smoothing_leaves_out_spikes_and_does_not_lag() -> None:
    """A parabola over the logarithm keeps its minimum; Gauss adds the variance of the weights."""
    rates = geometric(1e-4, 1.0, 201)
    losses = [(np.log10(rate) + 2) ** 2 for rate in rates]
    losses[40] = losses[120] = 1e9
    smoothed = smooth(rates, losses)
    assert lowest(smoothed) == int(np.argmin(losses)) == 100
    assert smoothed[100] == pytest.approx(0.2**2, rel=0.05)


@pytest.mark.parametrize("losses", [[], [1.0], [1.0, 2.0, 3.0], [1.0, 0.995, 1.2], [0.0] * 30])
def test_a_curve_without_a_fall_has_no_suggestion(losses: list[float]) -> None:
    assert lowest(losses) is None


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([2.3, 2.2, 2.1, 2.3, 2.6, 2.3, 2.09, 9.0], 2),  # as deep as the second valley, and before it
        ([2.3, 2.2, 2.1, 2.3, 2.6, 2.3, 1.5, 9.0], 6),  # the fall had only begun
        ([2.3, 2.2, 2.1, 2.15, 2.09, 9.0], 4),  # a small rise is noise
        ([2.3, 2.29, 2.4, 2.6, 2.2, 9.0], 4),  # and so is a small fall
    ],
)
def test_the_first_of_the_deep_valleys_counts(losses: list[float], expected: int) -> None:
    assert lowest(losses) == expected


def test_a_task_is_tested_until_it_diverges(blobs: Any, config: Any) -> None:
    given = config(
        optimizer={"name": "sgd", "learning_rate": 0.5}, early_stopping={"metric": "valid/no", "mode": "min"}
    )
    found = found_by_the_curve(blobs, given, geometric(1e-4, 1e6, 60))
    curve = found.curve
    assert curve.is_diverged and 20 < len(curve.losses) < 60
    assert len(curve.learning_rates) == len(curve.losses) == len(curve.smoothed)
    assert 3e-3 < curve.lowest < 30 and found.trials == []
    assert found.suggestions == {"optimizer.learning_rate": pytest.approx(curve.lowest / 3)}


def test_rates_of_groups_and_other_optimizers_keep_their_ratio(blobs: Any, config: Any) -> None:
    given = config(
        optimizer={"name": "sgd", "learning_rate": 0.5, "groups": ({"match": "*.bias", "learning_rate": 0.05},)},
    )
    learner = Learner(blobs, for_range_test(given))
    learner.find_rate(geometric(1e-3, 1.0, 30), trial_steps=0, metric="loss")
    assert learner.training is not None
    rates = learner.training.optimizers["optimizer"].learning_rates()
    assert [rate.at(10_000) for rate in rates.values()] == pytest.approx([1.0, 0.1])  # constant, not the cosine


def test_an_unknown_loss_is_refused_with_the_known_ones(blobs: Any, config: Any) -> None:
    with pytest.raises(TrainerError, match=r"no metric generator_loss[\s\S]*--metric loss"):
        found_by_the_curve(blobs, config(), geometric(1e-4, 1.0, 20), "generator_loss")


def test_a_loss_that_never_falls_is_refused(blobs: Any, config: Any) -> None:
    with pytest.raises(TrainerError, match=r"never fell[\s\S]*--to"):
        found_by_the_curve(blobs, config(optimizer={"name": "sgd", "learning_rate": 1.0}), geometric(1e3, 1e6, 20))

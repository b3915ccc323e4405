"""Short trainings that choose a learning rate: which ones are taken, their best, and that each starts anew."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.learner import Learner
from trainer.learner.range_test import for_range_test, geometric
from trainer.learner.rate_trials import MOST_TRIALS, RateTrial, around, best_rate, loss_at_end

ROOT = math.sqrt(10)


def parabola(best: float) -> Any:
    return lambda rate: 1.0 + (math.log10(rate) - math.log10(best)) ** 2


@pytest.mark.parametrize(
    ("best", "powers"),
    [(0.01, [-1, 0, 1]), (0.0008, [-3, -2, -1, 0]), (0.05, [-1, 0, 1, 2])],
)
def test_trials_go_towards_lower_losses_and_find_the_lowest(best: float, powers: list[int]) -> None:
    trials = around(0.01, parabola(best), 0.0)
    np.testing.assert_allclose([trial.learning_rate for trial in trials], [0.01 * ROOT**power for power in powers])
    assert best_rate(trials, 0.0) == pytest.approx(best)


def test_the_number_of_trials_is_limited_and_the_best_one_counts() -> None:
    trials = around(0.01, lambda rate: rate, 0.0)
    assert len(trials) == MOST_TRIALS and best_rate(trials, 0.0) == trials[0].learning_rate


def test_divergence_is_the_limit_of_a_large_loss() -> None:
    def suggested(right: float) -> float:
        return best_rate([RateTrial(0.1, 1.2), RateTrial(0.1 * ROOT, 1.0), RateTrial(1.0, right)], 0.0)

    assert suggested(math.inf) == pytest.approx(suggested(1e9)) == pytest.approx(0.1 * ROOT**0.5)


def test_of_losses_that_differ_by_noise_the_one_of_the_largest_rate_counts() -> None:
    losses = {-4: 0.7, -3: 0.1605, -2: 0.1611, -1: 0.1614, 0: 0.1812}
    trials = around(0.01, lambda rate: losses[round(math.log(rate / 0.01, ROOT))], noise=0.012)
    assert [trial.loss for trial in trials] == [0.1611, 0.1614, 0.1812]
    assert best_rate(trials, 0.012) == pytest.approx(0.01 / ROOT**1.5)
    assert best_rate([RateTrial(0.1, math.inf), RateTrial(1.0, 1.0), RateTrial(10.0, math.inf)], 0.1) == 1.0


def test_after_a_divergence_the_trials_have_smaller_rates() -> None:
    trials = around(0.01, lambda rate: math.inf if rate > 0.002 else 1.0 - rate, 0.0)
    assert [math.isinf(trial.loss) for trial in trials] == [False, False, True, True]


def test_a_training_without_a_finite_end_is_no_candidate() -> None:
    assert loss_at_end(iter([8.0, 7.0, 2.0, 4.0, 1.0, 3.0, 1.0, 2.0]), 8) == 1.5
    assert loss_at_end(iter([1.0, math.nan, 1.0]), 3) == math.inf
    with pytest.raises(TrainerError, match=r"every short training diverged[\s\S]*0.01 to 0.1[\s\S]*--to"):
        best_rate([RateTrial(0.01, math.inf), RateTrial(0.1, math.inf)], 0.0)


def test_a_trial_is_the_training_with_that_learning_rate(blobs: Any, config: Any) -> None:
    """The loss of a short training, after others, equals that of a run of its own with the schedule of the config."""
    shape = {"data": {"batch_size": 10}, "train": {"epochs": 4, "log_every_steps": 5}}
    learner = Learner(blobs, for_range_test(config(**shape)))
    found = learner.find_rate(geometric(1e-4, 1.0, 30), trial_steps=20, metric="loss")
    assert 3 <= len(found.trials) <= MOST_TRIALS
    trial = found.trials[0]  # never the one that was taken first
    run = Learner(blobs, config(**shape, optimizer={"name": "adam", "learning_rate": trial.learning_rate}))
    assert run.run().status == "done"
    assert run.metrics["train/loss"] == pytest.approx(trial.loss, rel=1e-9)  # the mean of the last five steps

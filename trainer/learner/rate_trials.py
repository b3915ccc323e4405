"""Short trainings that choose a learning rate: from equal weights, on equal batches, with the run's schedule.

The first has the learning rate with the lowest loss of a range test. The next ones have neighboring rates of the best
one so far, until the best lies between two worse ones; a parabola through the three gives the suggestion. If losses
differ only by noise, the largest rate counts as the best: a task that learns little in a few steps (`adding`) would
otherwise get the smallest rate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.configs import Schedule
from trainer.learner.range_test import FACTOR, LEAST_FALL, RangeTest, losses_at, range_test
from trainer.learner.schedules import learning_rate_for

if TYPE_CHECKING:
    from trainer.learner.plan import Plan
    from trainer.learner.training import Training

SPACING = math.sqrt(10)
"""The factor between the learning rates of two trainings."""
MOST_TRIALS = 6
"""Maximum number of short trainings."""
TAIL = 0.25
"""Fraction of a training, at its end, whose mean loss counts."""
LARGE = 1e300
"""The loss of a diverged training, for arithmetic."""


@dataclass(frozen=True)
class RateTrial:
    """A short training: its learning rate, and its mean training loss at the end (infinite: it diverged)."""

    learning_rate: float
    loss: float


@dataclass(frozen=True)
class FoundRate:
    """The outcome of `trainer find-lr`.

    Attributes:
        curve: the range test.
        trials: the short trainings, by increasing learning rate; none if only the range test was requested.
        suggestion: the suggested learning rate of the first optimizer.
        factors: learning rate of each optimizer by config key, relative to that of the first.
    """

    curve: RangeTest
    trials: Sequence[RateTrial]
    suggestion: float
    factors: Mapping[str, float]

    @property
    def suggestions(self) -> dict[str, float]:
        """The suggested learning rates, by config key."""
        return {key: self.suggestion * factor for key, factor in self.factors.items()}


Progress = Callable[[str, int, int, float], None]
"""Receives the progress: the current test or training, its steps done and in total, the next step's learning rate."""


def find_rate(
    training: Training, learning_rates: Sequence[float], *, trial_steps: int, metric: str,
    progress: Progress = lambda *_: None,
) -> FoundRate:  # fmt: skip
    """Runs a range test, then short trainings around the learning rate with its lowest loss.

    Args:
        training: its config is that of `for_range_test`.
        trial_steps: steps of a short training, which goes through the whole schedule of the run; 0: no trainings, and
            the suggestion is a third of the rate with the lowest loss.
        metric: name of the training metric that is the loss.

    Raises:
        TrainerError: the training reports no such metric, the loss never falls, or every training diverges.
    """
    restart = _restart(training)
    curve = range_test(training, learning_rates, metric=metric, progress=partial(progress, "range test"))
    shape = _compressed(training.config.schedule, training.plan, trial_steps)
    numbers = count(1)

    def loss_of(rate: float) -> float:
        restart()
        of_trial = partial(progress, f"training {next(numbers)} of at most {MOST_TRIALS}")
        with closing(losses_at(training, [rate * at for at in shape], metric=metric, progress=of_trial)) as steps:
            return loss_at_end(steps, len(shape))

    noise = LEAST_FALL * abs(curve.smoothed[0])
    trials = around(curve.lowest, loss_of, noise) if shape else []
    return FoundRate(curve, trials, best_rate(trials, noise) if trials else FACTOR * curve.lowest, _ratios(training))


def around(start: float, loss_of: Callable[[float], float], noise: float) -> list[RateTrial]:
    """Trials from `start` towards lower losses, until the best one lies between two worse ones."""
    losses: dict[int, float] = {}
    power: int | None = 0
    while power is not None and len(losses) < MOST_TRIALS:
        losses[power] = loss_of(start * SPACING**power)
        best = _best(losses, noise)
        power = next((one for one in (best - 1, best + 1) if one not in losses), None)
    return [RateTrial(start * SPACING**power, losses[power]) for power in sorted(losses)]


def best_rate(trials: Sequence[RateTrial], noise: float) -> float:
    """The learning rate at the vertex of the parabola through the best trial and its neighbors, over the logarithm.

    Raises:
        TrainerError: every trial diverged.
    """
    at = _best({index: trial.loss for index, trial in enumerate(trials)}, noise)
    best = trials[at]
    if not math.isfinite(best.loss):
        raise TrainerError(
            "no learning rate can be suggested: every short training diverged",
            found=f"learning rates {trials[0].learning_rate:.2g} to {trials[-1].learning_rate:.2g}",
            hint="Test smaller learning rates with --to.",
        )
    if not 0 < at < len(trials) - 1:
        return best.learning_rate
    left, right = (min(max(trials[beside].loss - best.loss, 0.0), LARGE) for beside in (at - 1, at + 1))
    return best.learning_rate * SPACING ** ((left - right) / (left + right) / 2)  # right > 0: see `_best`


def _best(losses: Mapping[int, float], noise: float) -> int:
    """The largest key whose loss is at most `noise` above the lowest; the smallest key if all are infinite."""
    least = min(losses.values())
    return max(key for key, loss in losses.items() if loss <= least + noise) if math.isfinite(least) else min(losses)


def loss_at_end(losses: Iterable[float], total: int) -> float:
    """The mean of the last of `total` losses; infinite if one is not finite."""
    found = list(takewhile(math.isfinite, losses))
    return statistics.fmean(found[-max(1, round(TAIL * total)) :]) if len(found) == total else math.inf


def _compressed(schedule: Schedule, plan: Plan, steps: int) -> list[float]:
    """The factors of the whole run's schedule, compressed to at most `steps` steps."""
    total = plan.total_steps or steps
    steps = min(steps, total)
    rate = learning_rate_for(1.0, schedule, plan)
    return [rate.at(step * total // steps) for step in range(steps)]


def _ratios(training: Training) -> dict[str, float]:
    """The learning rate of each optimizer by config key, relative to that of the first."""
    optimizers = training.optimizers
    base = next(iter(optimizers.values())).learning_rate.base
    is_single = len(optimizers) == 1 and training.config.optimizer is not None
    return {
        "optimizer.learning_rate" if is_single else f"optimizers.{name}.learning_rate": one.learning_rate.base / base
        for name, one in optimizers.items()
    }


def _restart(training: Training) -> Callable[[], None]:
    """Returns a function that resets the training to its current state."""
    states = [state for group in training.state.groups().values() for state in group.values()]
    values = [state.numpy().copy() for state in states]

    def restart() -> None:
        for state, value in zip(states, values, strict=True):
            state.set_value(value)
        training.progress.step = training.progress.micro_batch = 0

    return restart

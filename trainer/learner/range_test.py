"""A learning-rate range test: steps at growing learning rates, and the rate that the curve of the loss suggests.

The test is that of Smith, "Cyclical Learning Rates for Training Neural Networks" (2017), section 3.3. The curve
suggests a fraction of the rate with the lowest loss, like fastai's rule `minimum` (fastai/callback/schedule.py), but
in the first of the deep valleys. With a hundred steps, fastai's average of past losses lags by decades; this curve is
smoothed in both directions instead. Short trainings around that rate then decide (`rate_trials`): the test trains its
weights at all smaller rates first, so its curve alone misses the best rate by up to a decade.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from trainer import TrainerError
from trainer.configs import MetricsConfig, RunConfig
from trainer.configs.schedules.decay import ConstantSchedule

if TYPE_CHECKING:
    from trainer.learner.training import Training

WINDOW = 11
"""Number of recent losses whose median detects divergence: training recovers from single spikes."""
DIVERGENCE = 4.0
"""The test ends when the median loss exceeds its minimum by this factor."""
WIDTH = 0.2
"""Standard deviation of the smoothing of the curve, in decades of the learning rate."""
FACTOR = 1 / 3
"""The suggestion of the curve alone, relative to the learning rate with the lowest loss."""
LEAST_FALL = 0.01
"""A smaller fall of the loss, relative to its first value, is noise."""
RISE = 0.5
"""A rise by more than this fraction of the fall before it ends a valley of the curve."""
DEEP = 0.75
"""Minimum depth of the chosen valley, as a fraction of the depth of the deepest one."""

Progress = Callable[[int, int, float], None]
"""Receives the progress: steps done, steps in total, the learning rate of the next step."""


@dataclass(frozen=True)
class RangeTest:
    """The curve of a range test.

    Attributes:
        learning_rates: the learning rate of each step, growing by a constant factor.
        losses, smoothed: the training loss of each step, and its curve.
        lowest: the learning rate at the minimum of the curve.
        is_diverged: whether the test ended early because the loss diverged.
    """

    learning_rates: Sequence[float]
    losses: Sequence[float]
    smoothed: Sequence[float]
    lowest: float
    is_diverged: bool


def geometric(start: float, stop: float, steps: int) -> list[float]:
    """`steps` learning rates from `start` to `stop`, each larger than the one before by the same factor."""
    return [float(rate) for rate in np.geomspace(start, stop, steps)]


def smooth(learning_rates: Sequence[float], losses: Sequence[float]) -> list[float]:
    """Smooths the losses over the logarithm of the learning rate: Gaussian-weighted means of running medians.

    Each median is that of five losses, which removes spikes.
    """
    places, values = np.log10(np.asarray(learning_rates, np.float64)), np.asarray(losses, np.float64)
    medians = np.median(sliding_window_view(np.pad(values, 2, mode="edge"), 5), axis=1)
    weights = np.exp(-0.5 * ((places[:, None] - places) / WIDTH) ** 2)
    return [float(value) for value in weights @ medians / weights.sum(1)]


def lowest(losses: Sequence[float]) -> int | None:
    """The index of the lowest smoothed loss in the first of the deep valleys; None if the loss never fell.

    At large rates the weights can jump to a place of low loss that no training would find. Therefore the first of two
    valleys of about the same depth is chosen.
    """
    if not losses:
        return None
    least = LEAST_FALL * abs(losses[0])
    valleys = [0]
    for index, loss in enumerate(losses):
        at = valleys[-1]
        fall = losses[0] - losses[at]
        if loss < losses[at]:
            valleys[-1] = index
        elif fall > least and loss - losses[at] > RISE * fall:
            valleys.append(index)
    deepest = max(losses[0] - losses[at] for at in valleys)
    return next(at for at in valleys if losses[0] - losses[at] >= DEEP * deepest) if deepest > least else None


def for_range_test(config: RunConfig) -> RunConfig:
    """The config with constant learning rates, and without metrics, averages and hooks, which the test doesn't use.

    Its `schedule` is that of the first optimizer; no optimizer uses it in the test.
    """
    schedules: list[Any] = []

    def constant(section: Any) -> Any:
        schedules.append(section.schedule or config.schedule)
        groups = tuple(group.model_copy(update={"schedule": None}) for group in section.groups)
        return section.model_copy(update={"schedule": ConstantSchedule(), "groups": groups})

    optimizers = config.optimizers
    return config.model_copy(
        update={
            "optimizer": None if config.optimizer is None else constant(config.optimizer),
            "optimizers": None if optimizers is None else {name: constant(one) for name, one in optimizers.items()},
            "schedule": schedules[0] if schedules else config.schedule,
            "metrics": MetricsConfig(),
            "train": config.train.model_copy(update={"ema": None, "spike": None}),
            "checkpoint": config.checkpoint.model_copy(update={"best": None}),
            "early_stopping": None,
            "hooks": (),
            "sinks": (),
        }
    )


def range_test(
    training: Training, learning_rates: Sequence[float], *, metric: str, progress: Progress = lambda *_: None
) -> RangeTest:
    """Takes a step at each learning rate until the loss diverges, and finds the minimum of the curve.

    Args:
        metric: name of the training metric that is the loss.

    Raises:
        TrainerError: the training reports no such metric, or the loss never falls.
    """
    losses: list[float] = []
    least, is_diverged = math.inf, False
    with closing(losses_at(training, learning_rates, metric=metric, progress=progress)) as steps:
        for loss in steps:
            if not math.isfinite(loss):
                is_diverged = True
                break
            losses.append(loss)
            median = statistics.median(losses[-WINDOW:])
            if median > DIVERGENCE * least > 0:
                is_diverged = True
                break
            least = min(least, median)
    rates = list(learning_rates[: len(losses)])
    smoothed = smooth(rates, losses) if rates else []
    at = lowest(smoothed)
    if at is None:
        raise TrainerError(
            "the loss never fell, so that no learning rate can be suggested",
            found=f"{len(losses)} finite losses between learning rates {learning_rates[0]:g} and {rates[-1]:g}"
            if rates else f"no finite loss at learning rate {learning_rates[0]:g}",
            hint="Test other learning rates with --from and --to, or take more steps with --steps.",
        )  # fmt: skip
    return RangeTest(rates, losses, smoothed, rates[at], is_diverged)


def losses_at(
    training: Training, learning_rates: Sequence[float], *, metric: str, progress: Progress
) -> Generator[float, None, None]:
    """Takes a step at each learning rate, starting with the first batch of the data, and yields the loss of each step.

    The rate is that of the first optimizer; all other rates, of groups and further optimizers, keep their ratio to it.
    """
    optimizers = training.optimizers
    base = next(iter(optimizers.values())).learning_rate.base
    training.prepare()
    with closing(_batches(training)) as batches:
        for done, rate in enumerate(learning_rates):
            progress(done, len(learning_rates), rate)
            training.inbox.check()
            for optimizer in optimizers.values():
                for each in optimizer.learning_rates().values():
                    each.scale.set_value(np.array(rate / base))
            yield _loss_of_a_step(training, batches, metric)


def _loss_of_a_step(training: Training, batches: Iterator[Mapping[str, Any]], metric: str) -> float:
    """The mean of the metric over the batches of one step."""
    training.step(batches)
    values = training.latest()
    training.measuring.train.reset()
    if metric not in values:
        known = [name for name in values if "loss" in name] or list(values)
        raise TrainerError(
            f"the training reports no metric {metric}", found=", ".join(known),
            hint=f"Name the loss with --metric, such as --metric {known[0]}." if known else None,
        )  # fmt: skip
    return values[metric]


def _batches(training: Training) -> Generator[Mapping[str, Any], None, None]:
    """Yields the training batches of all epochs in order."""
    for epoch in count():
        with training.epoch(epoch, 0) as batches:
            yield from batches

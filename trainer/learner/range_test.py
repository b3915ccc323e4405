"""A learning-rate range test: steps at growing learning rates, and the rate that the curve of the loss suggests.

The test is of Smith, "Cyclical Learning Rates for Training Neural Networks" (2017), section 3.3; smoothing, the limit
of divergence and both rules are those of fastai (fastai/callback/schedule.py: `LRFinder`, `steep`, `valley`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer import TrainerError
from trainer.configs import ConstantSchedule, MetricsConfig, RunConfig

if TYPE_CHECKING:
    from trainer.learner.training import Training

SMOOTHING = 0.98
"""Decay of the exponential moving average of the losses."""
DIVERGENCE = 4.0
"""The test ends when the smoothed loss exceeds its minimum by this factor."""
LAST_LEFT_OUT = 5
"""Points at the end that don't enter the suggestion: the loss diverges there."""
SHORTEST_VALLEY = 3
"""A fall of the loss over fewer points is noise."""

Progress = Callable[[int, int, float], None]
"""Receives the progress: steps done, steps in total, the learning rate of the next step."""


@dataclass(frozen=True)
class RangeTest:
    """The curve of a range test.

    Attributes:
        learning_rates: the learning rate of each step, growing by a constant factor.
        losses, smoothed: the training loss of each step, and its exponential moving average without bias.
        suggestion: where the smoothed loss falls fastest per factor of the learning rate.
        cautious: halfway into the longest stretch in which the smoothed loss falls.
        is_diverged: whether the test ended early because the loss diverged.
        factors: learning rate of each optimizer by config key, relative to the tested one.
    """

    learning_rates: Sequence[float]
    losses: Sequence[float]
    smoothed: Sequence[float]
    suggestion: float
    cautious: float
    is_diverged: bool
    factors: Mapping[str, float]

    @property
    def suggestions(self) -> dict[str, float]:
        """The suggested learning rates, by config key."""
        return {key: self.suggestion * factor for key, factor in self.factors.items()}


def geometric(start: float, stop: float, steps: int) -> list[float]:
    """`steps` learning rates from `start` to `stop`, each larger than the one before by the same factor."""
    return [float(rate) for rate in np.geomspace(start, stop, steps)]


def valley(losses: Sequence[float]) -> int | None:
    """The index halfway into the longest decreasing subsequence.

    The rule `valley` of fastai. None if the loss falls over fewer than `SHORTEST_VALLEY` points.
    """
    values = np.asarray(losses, np.float64)
    lengths = np.ones(len(values), np.int64)
    for index in range(1, len(values)):
        higher = lengths[:index][values[:index] > values[index]]
        if len(higher):
            lengths[index] = 1 + higher.max()
    if not len(values) or lengths.max() <= SHORTEST_VALLEY:
        return None
    end = int(lengths.argmax())
    start = end - int(lengths[end])
    third = (end - start) / 3
    return start + int(third) + int(third / 2)


def steepest(learning_rates: Sequence[float], losses: Sequence[float]) -> int:
    """The index from which the loss falls fastest over the logarithm of the learning rate; at least two points."""
    slopes = np.diff(np.asarray(losses, np.float64)) / np.diff(np.log(np.asarray(learning_rates, np.float64)))
    return int(slopes.argmin())


class Smoothed:
    """An exponential moving average without the bias of its beginning (Adam's correction)."""

    def __init__(self, decay: float = SMOOTHING) -> None:
        self._decay, self._sum, self._count = decay, 0.0, 0

    def __call__(self, value: float) -> float:
        """The average after one more value."""
        self._count += 1
        self._sum = self._decay * self._sum + (1 - self._decay) * value
        return self._sum / (1 - self._decay**self._count)


def for_range_test(config: RunConfig) -> RunConfig:
    """The config with constant learning rates, and without metrics, averages and hooks, which the test doesn't use."""

    def constant(section: Any) -> Any:
        groups = tuple(group.model_copy(update={"schedule": None}) for group in section.groups)
        return section.model_copy(update={"schedule": None, "groups": groups})

    optimizers = config.optimizers
    return config.model_copy(
        update={
            "schedule": ConstantSchedule(),
            "optimizer": None if config.optimizer is None else constant(config.optimizer),
            "optimizers": None if optimizers is None else {name: constant(one) for name, one in optimizers.items()},
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
    """Takes a step at each learning rate until the loss diverges, and finds the suggestion on the curve.

    The rate is that of the first optimizer; all other rates, of groups and further optimizers, keep their ratio to it.

    Args:
        metric: training metric that is the loss.

    Raises:
        TrainerError: the training reports no such metric, or the loss never falls.
    """
    optimizers = training.optimizers
    base = next(iter(optimizers.values())).learning_rate.base
    losses: list[float] = []
    smoothed: list[float] = []
    average, is_diverged = Smoothed(), False
    training.prepare()
    with closing(_batches(training)) as batches:
        for done, rate in enumerate(learning_rates):
            progress(done, len(learning_rates), rate)
            training.inbox.check()
            for optimizer in optimizers.values():
                for each in optimizer.learning_rates().values():
                    each.scale.set_value(np.array(rate / base))
            loss = _loss_of_a_step(training, batches, metric)
            if not math.isfinite(loss):
                is_diverged = True
                break
            losses.append(loss)
            smoothed.append(average(loss))
            if smoothed[-1] > DIVERGENCE * min(smoothed) > 0:
                is_diverged = True
                break
    rates = list(learning_rates[: len(losses)])
    first, last = len(learning_rates) // 10, len(losses) - LAST_LEFT_OUT
    at = valley(smoothed[first:last]) if last > first else None
    if at is None:
        raise TrainerError(
            "the loss never fell, so that no learning rate can be suggested",
            found=f"{len(losses)} finite losses between learning rates {learning_rates[0]:g} and {rates[-1]:g}"
            if rates else f"no finite loss at learning rate {learning_rates[0]:g}",
            hint="Test other learning rates with --from and --to, or take more steps with --steps.",
        )  # fmt: skip
    several = len(optimizers) > 1
    return RangeTest(
        rates, losses, smoothed, rates[first + steepest(rates[first:last], smoothed[first:last])], rates[first + at],
        is_diverged,
        {f"optimizers.{name}.learning_rate" if several or training.config.optimizer is None
         else "optimizer.learning_rate": one.learning_rate.base / base for name, one in optimizers.items()},
    )  # fmt: skip


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
    """The training batches of one epoch after the other."""
    for epoch in count():
        with training.epoch(epoch, 0) as batches:
            yield from batches

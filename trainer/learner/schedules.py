"""Learning-rate schedules: pure functions of the step, one formula for tensors in a traced step and for NumPy.

A schedule gives the factor on the base learning rate. It is written once, for any namespace with the array API's
names: the engine when a step is traced (so that a change of the learning rate never compiles anything), NumPy for
`LearningRate.at`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import Tensor


class Schedule(Protocol):
    """`factor(step, xp)`: the factor at `step` (a float64 scalar holding a whole number, from 0) in namespace `xp`."""

    def factor(self, step: Any, xp: Any) -> Any:
        """The factor on the base learning rate."""


@dataclass(frozen=True)
class Constant:
    """Factor 1 at every step."""

    def factor(self, step: Any, xp: Any) -> Any:
        return step * 0 + 1


@dataclass(frozen=True)
class StepDecay:
    """gamma ** floor(step / step_size)."""

    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        if self.step_size < 1:
            raise TrainerError("a step schedule needs a positive step size", found=self.step_size)

    def factor(self, step: Any, xp: Any) -> Any:
        decays = xp.floor(step / self.step_size)
        return xp.exp(decays * math.log(self.gamma)) if self.gamma > 0 else xp.where(decays > 0, step * 0, step * 0 + 1)


@dataclass(frozen=True)
class MultiStep:
    """gamma ** (number of milestones that are reached)."""

    milestones: tuple[int, ...]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        if list(self.milestones) != sorted(set(self.milestones)):
            raise TrainerError("milestones must increase", found=self.milestones)

    def factor(self, step: Any, xp: Any) -> Any:
        factor = step * 0 + 1
        for count, milestone in enumerate(self.milestones, start=1):
            factor = xp.where(step >= milestone, step * 0 + self.gamma**count, factor)
        return factor


@dataclass(frozen=True)
class Cosine:
    """From 1 at step `start` along half a cosine to `final_factor` at `total_steps` (Loshchilov & Hutter 2017)."""

    total_steps: int
    final_factor: float = 0.0
    start: int = 0

    def factor(self, step: Any, xp: Any) -> Any:
        length = max(1, self.total_steps - self.start)
        progress = xp.clip((step - self.start) / length, 0.0, 1.0)
        return self.final_factor + (1 - self.final_factor) * 0.5 * (1 + xp.cos(progress * math.pi))


@dataclass(frozen=True)
class ByEpoch:
    """Another schedule whose unit is the epoch: it changes between epochs only."""

    schedule: Schedule
    steps_per_epoch: int

    def factor(self, step: Any, xp: Any) -> Any:
        return self.schedule.factor(xp.floor(step / max(1, self.steps_per_epoch)), xp)


@dataclass(frozen=True)
class WarmUp:
    """Another schedule, times (step + 1) / steps during the first `steps` steps (Goyal et al. 2017)."""

    schedule: Schedule
    steps: int

    def factor(self, step: Any, xp: Any) -> Any:
        factor = self.schedule.factor(step, xp)
        return factor if self.steps < 1 else factor * xp.clip((step + 1) / self.steps, 0.0, 1.0)


@dataclass(frozen=True)
class LearningRate:
    """A base learning rate under a schedule."""

    base: float
    schedule: Schedule = Constant()

    def __call__(self, step: Tensor) -> Tensor:
        """The learning rate, a float64 scalar tensor, at `step`, an integer scalar tensor counting from 0."""
        return self.schedule.factor(step.astype(engine.float64), engine) * self.base

    def at(self, step: int) -> float:
        """The learning rate at `step`, in NumPy."""
        return float(self.schedule.factor(np.float64(step), np) * self.base)


def schedule_from(config: Any, *, steps_per_epoch: int, total_steps: int) -> Schedule:
    """The schedule that a `schedule:` section describes; `by: epoch` makes the epoch its unit."""
    by_epoch = config.by == "epoch"
    warmup = config.warmup_steps or round((config.warmup_epochs or 0) * steps_per_epoch)
    unit = max(1, steps_per_epoch) if by_epoch else 1
    schedule: Schedule
    if config.name == "constant":
        schedule = Constant()
    elif config.name == "step":
        milestones = getattr(config, "milestones", None)
        schedule = (
            MultiStep(tuple(milestones), config.gamma) if milestones else StepDecay(config.step_size, config.gamma)
        )
    elif config.name == "cosine":
        schedule = Cosine(math.ceil(total_steps / unit), config.final_factor, warmup // unit)
    else:
        raise TrainerError("unknown schedule", found=repr(config.name), expected="constant, step or cosine")
    if by_epoch:
        schedule = ByEpoch(schedule, steps_per_epoch)
    return WarmUp(schedule, warmup) if warmup else schedule

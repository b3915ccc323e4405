"""The learning rate of an optimizer: its base under a schedule, in the traced step and in NumPy.

Schedules themselves are sections of the config that contain their formula (`trainer.configs.schedules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from trainer import TrainerError, engine
from trainer.configs import Schedule, Span, every_schedule
from trainer.configs.schedules.decay import ConstantSchedule
from trainer.configs.schedules.plateau import PlateauSchedule
from trainer.engine import State, Tensor

if TYPE_CHECKING:
    from trainer.learner.plan import Plan


class LearningRate:
    """A base learning rate under a schedule.

    Args:
        base: the learning rate at factor 1.
        schedule: the factor over the run; constant by default.
        total_steps: optimizer steps of the run, for schedules that end with the run.
        steps_per_epoch: optimizer steps per epoch, for schedules in epochs.
    """

    def __init__(
        self, base: float, schedule: Schedule | None = None, *, total_steps: int = 0, steps_per_epoch: int = 1
    ) -> None:
        self.base, self.schedule = base, schedule if schedule is not None else ConstantSchedule()
        every = every_schedule(self.schedule)
        self._memories: dict[PlateauSchedule, State] = {
            part: State(np.array(part.at_first()), f"schedule.{index}", engine.float64)
            for index, part in enumerate(every)
            if isinstance(part, PlateauSchedule)
        }
        self.scale = State(np.ones(()), "learning_rate.scale", engine.float64)
        """A further factor set by the loop, such as after a rollback; not saved."""
        self._span = Span(total_steps, steps_per_epoch, self._memories)
        if total_steps < 1 and (lost := [part.name for part in every if part.ends_with_the_run]):
            raise TrainerError(
                f"a {lost[0]} schedule needs the number of steps of the run", expected="total_steps of 1 or more"
            )

    def __call__(self, step: Tensor) -> Tensor:
        """The learning rate, a float64 scalar tensor, at `step`, an integer scalar tensor counting from 0."""
        return self.schedule.factor(step.astype(engine.float64), self._span, engine) * (self.scale * self.base)

    def at(self, step: int) -> float:
        """The learning rate at `step`, in NumPy."""
        held = {part: np.asarray(state) for part, state in self._memories.items()}
        span = Span(self._span.total_steps, self._span.steps_per_epoch, held)
        return float(self.schedule.factor(np.float64(step), span, np) * self.base) * float(self.scale.item())

    def rebased(self, base: float) -> LearningRate:
        """The same schedule with another base."""
        span = self._span
        return LearningRate(base, self.schedule, total_steps=span.total_steps, steps_per_epoch=span.steps_per_epoch)

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Passes new metric values, by "split/name", to schedules that monitor them."""
        for part, state in self._memories.items():
            if part.metric in metrics:
                state.set_value(np.array(part.after(np.asarray(state).tolist(), metrics[part.metric])))

    def awaited_metrics(self) -> tuple[str, ...]:
        """The metrics that the schedule monitors."""
        return tuple(part.metric for part in self._memories)

    def named_states(self) -> dict[str, State]:
        """The states of the schedule, by name."""
        return {state.name or "schedule": state for state in self._memories.values()}


def learning_rate_for(base: float, schedule: Schedule, plan: Plan) -> LearningRate:
    """The learning rate for a planned run."""
    return LearningRate(base, schedule, total_steps=plan.total_steps, steps_per_epoch=plan.steps_per_epoch)

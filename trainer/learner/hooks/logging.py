"""Logs training metrics at regular step intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook
from trainer.learner.verdict import Verdict

if TYPE_CHECKING:
    from trainer.configs import RunConfig


class Log(Hook):
    """Reads and logs the metrics since the last record: after the first step, when due, and at the end."""

    order, is_inline = 10, True

    def __init__(self, every_steps: int) -> None:
        self.every_steps = every_steps

    @classmethod
    def for_config(cls, config: RunConfig) -> Log:
        return cls(config.train.log_every_steps)

    def after_step(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        is_due = moment.step == 1 or moment.step % self.every_steps == 0 or training.progress.is_over(training.plan)
        return training.log() if is_due else None

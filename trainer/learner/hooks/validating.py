"""Validates at intervals of steps or epochs, and writes samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook, is_due
from trainer.learner.verdict import Verdict

if TYPE_CHECKING:
    from trainer.configs import RunConfig


class Validate(Hook):
    """Evaluates the validation split when due, and at the end."""

    order, is_inline = 40, True

    def __init__(self, every_steps: int | None, every_epochs: int | None) -> None:
        self.every_steps, self.every_epochs = every_steps, every_epochs

    @classmethod
    def for_config(cls, config: RunConfig) -> Validate:
        return cls(config.validate.every_steps, config.validate.every_epochs)

    def on_start(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """Validates now if the run was stopped between a step and its validation."""
        return self.after_step(training, moment) if moment.step else None

    def after_step(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        progress, plan = training.progress, training.plan
        due = is_due(
            moment.step,
            every_steps=self.every_steps,
            every_epochs=self.every_epochs,
            steps_per_epoch=plan.steps_per_epoch,
        )
        if progress.validated_step == moment.step or not (due or progress.is_over(plan)):
            return None
        if (verdict := training.validate()) is not None:
            return verdict
        training.show_samples()
        return None

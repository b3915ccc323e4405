"""Validation every so many steps or epochs, and the samples that go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.learner.hooks.hook import Hook, Moment, is_due

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner.training import Training


class Validate(Hook):
    """Evaluates the validation split when it is due, and at the end."""

    order, is_inline = 40, True

    def __init__(self, every_steps: int | None, every_epochs: int | None) -> None:
        self.every_steps, self.every_epochs = every_steps, every_epochs

    @classmethod
    def for_config(cls, config: RunConfig) -> Validate:
        return cls(config.validate.every_steps, config.validate.every_epochs)

    def on_start(self, training: Training, moment: Moment) -> None:
        """A run that was stopped between a step and its validation makes up for it."""
        if moment.step:
            self.after_step(training, moment)

    def after_step(self, training: Training, moment: Moment) -> None:
        progress, plan = training.progress, training.plan
        due = is_due(
            moment.step,
            every_steps=self.every_steps,
            every_epochs=self.every_epochs,
            steps_per_epoch=plan.steps_per_epoch,
        )
        if progress.validated_step != moment.step and (due or progress.is_over(plan)):
            training.validate()
            training.show_samples()

"""Checkpoints every so many steps or epochs, of the best, and at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.learner.checkpoints import is_better
from trainer.learner.hooks.hook import Hook, Moment, is_due, value_of

if TYPE_CHECKING:
    from trainer.configs import BestConfig, RunConfig
    from trainer.learner.training import Training


class SaveCheckpoints(Hook):
    """Saves when it is due, when the best metric has improved, and at the end."""

    order, is_inline = 70, True

    def __init__(self, every_steps: int | None, every_epochs: int | None, best: BestConfig | None) -> None:
        self.every_steps, self.every_epochs, self.best = every_steps, every_epochs, best

    @classmethod
    def for_config(cls, config: RunConfig) -> SaveCheckpoints:
        section = config.checkpoint
        return cls(section.every_steps, section.every_epochs, section.best)

    def on_start(self, training: Training, moment: Moment) -> None:
        if moment.step:
            self.after_step(training, moment)

    def after_validation(self, training: Training, moment: Moment) -> None:
        """Note an improvement; the save follows when the step's hooks are done."""
        if self.best is None:
            return
        value = value_of(self.best.metric, "checkpoint.best.metric", moment.metrics, moment.metrics)
        if is_better(value, training.progress.best_value, self.best.mode):
            training.progress.best_value = value
            training.progress.best_is_unsaved = True

    def after_step(self, training: Training, moment: Moment) -> None:
        progress, plan = training.progress, training.plan
        due = is_due(
            moment.step,
            every_steps=self.every_steps,
            every_epochs=self.every_epochs,
            steps_per_epoch=plan.steps_per_epoch,
        )
        reasons = ["best"] if progress.best_is_unsaved else []
        if due:
            reasons.append("epoch" if self.every_steps is None else "due")
        elif progress.is_over(plan):
            reasons.append("end")
        if reasons and progress.saved_step != moment.step:
            training.save(*reasons)

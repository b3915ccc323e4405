"""Checkpoints every few steps, epochs or minutes, of the best weights, and at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainer.learner.checkpoints import is_better
from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook, is_due, value_of
from trainer.learner.verdict import Verdict

if TYPE_CHECKING:
    from trainer.configs import CheckpointConfig, RunConfig


class SaveCheckpoints(Hook):
    """Saves when a checkpoint is due, when a metric is among the best, and at the end; reports written checkpoints."""

    order, is_inline = 70, True

    def __init__(self, config: CheckpointConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self._clock, self._last = clock, clock()
        self._is_prepared = False

    @classmethod
    def for_config(cls, config: RunConfig) -> SaveCheckpoints:
        return cls(config.checkpoint)

    def on_start(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        self._last = self._clock()
        return self.after_step(training, moment) if moment.step else None

    def after_validation(self, training: TrainingHandle, moment: Moment) -> None:
        """Records an improvement; the checkpoint is written after the hooks of the step."""
        best = self.config.best
        if best is None:
            return
        value = value_of(best.metric, "checkpoint.best.metric", moment.metrics, moment.metrics)
        if is_better(value, training.progress.best_value, best.mode):
            training.progress.best_value = value
            training.progress.best_is_unsaved = True
        elif training.saving.is_worth_one(value):
            training.progress.best_is_unsaved = True

    def after_step(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        training.saving.tell()
        reasons = ["best"] if training.progress.best_is_unsaved else []
        if reason := self._due(training, moment.step):
            reasons.append(reason)
        is_prepared, self._is_prepared = self._is_prepared, True
        if reasons and not training.progress.is_saved:
            self._last = self._clock()
            return training.saving.save(*reasons)
        if not is_prepared:
            training.saving.prepare()
        return None

    def _due(self, training: TrainingHandle, step: int) -> str:
        config, plan = self.config, training.plan
        by_minutes_only = config.every_minutes is not None and config.every_steps is config.every_epochs is None
        if not by_minutes_only and is_due(
            step,
            every_steps=config.every_steps,
            every_epochs=config.every_epochs,
            steps_per_epoch=plan.steps_per_epoch,
        ):
            return "epoch" if config.every_steps is None else "due"
        if config.every_minutes is not None and self._clock() - self._last >= 60 * config.every_minutes:
            return "minutes"
        return "end" if training.progress.is_over(plan) else ""

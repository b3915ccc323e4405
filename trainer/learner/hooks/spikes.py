"""Detects a loss that jumps up."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from trainer.learner.failures import TrainingFailure
from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook, value_of
from trainer.learner.verdict import Verdict
from trainer.rundir import WarningEvent

if TYPE_CHECKING:
    from trainer.configs import RunConfig, SpikeConfig


class SpikeGuard(Hook):
    """Compares a training metric with its recent median."""

    order, is_inline = 20, True

    def __init__(self, config: SpikeConfig) -> None:
        self.config = config

    @classmethod
    def for_config(cls, config: RunConfig) -> SpikeGuard | None:
        return None if config.train.spike is None else cls(config.train.spike)

    def after_log(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        config = self.config
        value = value_of(config.metric, "train.spike.metric", moment.measured, moment.measured)
        recent = training.progress.recent[-config.window :]
        usual = statistics.median(recent) if len(recent) == config.window else math.inf
        if value <= config.factor * usual:
            training.progress.recent = (*recent, value)[-config.window :]
            return None
        failure = TrainingFailure(
            f"{config.metric} jumped up at step {moment.step}",
            found=f"{value:g}",
            expected=f"at most {config.factor:g} times the recent median of {usual:g} (train.spike)",
            hint="A lower learning rate or train.gradient_clip_norm often helps.",
        )
        if config.action != "warn":
            return Verdict(failure, goes_back=config.action == "rollback")
        training.tell(WarningEvent(str(failure)))
        return None

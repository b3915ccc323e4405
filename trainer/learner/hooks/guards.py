"""What happens when numbers go wrong: not finite, or a loss that jumps up."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from trainer.learner.failures import TrainingFailure, not_finite
from trainer.learner.hooks.hook import Hook, Moment, value_of
from trainer.learner.optimizers import learning_rates
from trainer.learner.precision import SMALLEST_FACTOR
from trainer.rundir import WarningEvent

if TYPE_CHECKING:
    from trainer.configs import RunConfig, SpikeConfig
    from trainer.learner.late import Read
    from trainer.learner.training import Training


class RolledBack(Exception):
    """Training is back at an earlier step: its position in the data is another."""


class NanGuard(Hook):
    """Looks for numbers that are not finite before they can do harm: when metrics are read, and before each save."""

    order, is_inline = 5, True

    def __init__(self, action: str, limit: int) -> None:
        self.action, self.limit = action, limit
        self._skipped = 0

    @classmethod
    def for_config(cls, config: RunConfig) -> NanGuard:
        return cls(config.train.on_nan, config.train.nan_limit)

    def on_start(self, training: Training, moment: Moment) -> None:
        self._skipped = training.skipped_steps()

    def check(self, training: Training, read: Read) -> None:
        """Act on the first number that was not finite, if there is one.

        Raises:
            TrainingFailure: the run ends.
            RolledBack: it goes on from its last checkpoint.
        """
        scale = training.loss_scale
        if scale is not None:
            self._count_skipped(training, read, is_limited=not scale.is_dynamic)
            factor = float(read(scale.factor))
            if factor < SMALLEST_FACTOR:
                raise TrainingFailure(
                    "the gradients overflow float16, however small the loss is scaled",
                    found=f"a loss scale of {factor:g}",
                    hint="Try train.precision=bfloat16 (of float32's range), a lower learning rate or a warm-up.",
                )
        found = training.measuring.train.tally.first_not_finite(read)
        if found is None:
            return
        metric, step = found
        rates = learning_rates(training.parts.optimizers, training.progress.step)
        failure = not_finite(metric, step, rates, training.progress.saved_step)
        if self.action != "rollback":
            raise failure
        roll_back(training, failure, self.limit)

    def _count_skipped(self, training: Training, read: Read, *, is_limited: bool) -> None:
        """Tell of steps that were left out; of a scale that looks for its level (float16) there may be any number."""
        skipped = training.skipped_steps(read)
        if skipped > self._skipped:
            training.tell(WarningEvent(
                f"{skipped - self._skipped} steps were left out: their gradients were not finite ({skipped} in all)"
            ))  # fmt: skip
            self._skipped = skipped
        if is_limited and skipped > self.limit:
            raise TrainingFailure(
                f"{skipped} steps had gradients that were not finite",
                expected=f"at most {self.limit} (train.nan_limit)",
                hint="A lower learning rate, a warm-up or train.gradient_clip_norm often helps.",
            )


class SpikeGuard(Hook):
    """Compares a training metric with its median of late."""

    order, is_inline = 20, True

    def __init__(self, config: SpikeConfig, limit: int) -> None:
        self.config, self.limit = config, limit

    @classmethod
    def for_config(cls, config: RunConfig) -> SpikeGuard | None:
        return None if config.train.spike is None else cls(config.train.spike, config.train.nan_limit)

    def after_log(self, training: Training, moment: Moment) -> None:
        config = self.config
        value = value_of(config.metric, "train.spike.metric", moment.measured, moment.measured)
        recent = training.progress.recent[-config.window :]
        usual = statistics.median(recent) if len(recent) == config.window else math.inf
        if value <= config.factor * usual:
            training.progress.recent = (*recent, value)[-config.window :]
            return
        failure = TrainingFailure(
            f"{config.metric} jumped up at step {moment.step}",
            found=f"{value:g}",
            expected=f"at most {config.factor:g} times its median of {usual:g} (train.spike)",
            hint="A lower learning rate or train.gradient_clip_norm often helps.",
        )
        if config.action == "stop":
            raise failure
        if config.action == "rollback":
            roll_back(training, failure, self.limit)
        training.tell(WarningEvent(str(failure)))


def roll_back(training: Training, failure: TrainingFailure, limit: int) -> None:
    """Go back to the last checkpoint, with a lower learning rate.

    Raises:
        RolledBack: done.
        TrainingFailure: `failure`, where there is no checkpoint, or it was done too often.
    """
    if training.progress.saved_step < 0 or training.progress.rollbacks >= limit:
        raise failure
    training.tell(WarningEvent(f"{failure} The run goes back to step {training.progress.saved_step}."))
    training.roll_back()
    raise RolledBack

"""Early stopping: ends training when a metric has stopped improving."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook, value_of

if TYPE_CHECKING:
    from trainer.configs import EarlyStoppingConfig, RunConfig


@dataclass(frozen=True)
class Patience:
    """The state of early stopping: best value, validations since then, and total number of validations."""

    best: float | None = None
    waited: int = 0
    measured: int = 0

    def after(self, value: float, config: EarlyStoppingConfig) -> Patience:
        """The state after one more validation; NaN is not an improvement."""
        if self.measured < config.warmup:
            return replace(self, measured=self.measured + 1)
        gain = 0.0 if self.best is None else (value - self.best) * (1 if config.mode == "max" else -1)
        improved = not math.isnan(value) and (self.best is None or gain > config.min_change)
        return Patience(value if improved else self.best, 0 if improved else self.waited + 1, self.measured + 1)


class EarlyStopping(Hook):
    """Ends training with status done when the metric has not improved for more than `patience` validations."""

    order, is_inline = 50, True

    def __init__(self, config: EarlyStoppingConfig) -> None:
        self.config = config

    @classmethod
    def for_config(cls, config: RunConfig) -> EarlyStopping | None:
        return None if config.early_stopping is None else cls(config.early_stopping)

    def after_log(self, training: TrainingHandle, moment: Moment) -> None:
        if self.config.metric.startswith("train/"):
            self._measure(training, moment)

    def after_validation(self, training: TrainingHandle, moment: Moment) -> None:
        if not self.config.metric.startswith("train/"):
            self._measure(training, moment)

    def _measure(self, training: TrainingHandle, moment: Moment) -> None:
        value = value_of(self.config.metric, "early_stopping.metric", moment.measured, moment.metrics)
        memory = Patience(*training.progress.patience).after(value, self.config)
        training.progress.patience = (memory.best, memory.waited, memory.measured)
        if memory.waited > self.config.patience:
            training.finish(
                f"{self.config.metric} has not improved on {memory.best:.6g} for {memory.waited} validations"
            )

"""Ends training after a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook

if TYPE_CHECKING:
    from trainer.configs import RunConfig


class TimeLimit(Hook):
    """Ends training with status done after the step at which the time limit is reached; earlier attempts count."""

    order, is_inline = 30, True

    def __init__(self, minutes: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.minutes, self._clock = minutes, clock
        self._last = clock()

    @classmethod
    def for_config(cls, config: RunConfig) -> TimeLimit | None:
        return None if config.train.minutes is None else cls(config.train.minutes)

    def on_start(self, training: TrainingHandle, moment: Moment) -> None:
        self._last = self._clock()

    def after_step(self, training: TrainingHandle, moment: Moment) -> None:
        now = self._clock()
        training.progress.seconds += now - self._last
        self._last = now
        if training.progress.seconds >= 60 * self.minutes:
            training.finish(f"the limit of {self.minutes:g} minutes is reached")

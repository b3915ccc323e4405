"""Warns once if training waits for its data, and suggests settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.engine.targets.cpu.topology import available_processors
from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook
from trainer.rundir import WarningEvent

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.configs.data import DataConfig

SHARE = 0.2
"""Minimum fraction of the time spent waiting for data at which training counts as input-bound."""
SECONDS = 20.0
"""Seconds that training must be input-bound before the warning."""


class InputBound(Hook):
    """Checks the fraction of time that steps wait for data, at each log record."""

    order, is_inline = 15, True

    def __init__(self, data: DataConfig) -> None:
        self.data = data
        self._waited = self._seconds = 0.0
        self._has_warned = False

    @classmethod
    def for_config(cls, config: RunConfig) -> InputBound:
        return cls(config.data)

    def after_log(self, training: TrainingHandle, moment: Moment) -> None:
        reading = training.reading
        if reading is None or self._has_warned:
            return
        if reading.data_wait < SHARE:
            self._waited = self._seconds = 0.0
            return
        self._waited += reading.data_wait * reading.seconds
        self._seconds += reading.seconds
        if self._seconds >= SECONDS:
            self._has_warned = True
            workers = training.splits.train.workers
            training.tell(WarningEvent(
                f"Training waits for data {self._waited / self._seconds:.0%} of the time. "
                + advice(self.data, workers.workers, available_processors())
            ))  # fmt: skip


def advice(data: DataConfig, workers: int, available: int) -> str:
    """The suggestion for these numbers of workers and processors."""
    ways = []
    if workers < available:
        ways.append(f"data.workers (now {workers}; {available} processors)")
    if data.cache_gb == 0:
        ways.append("data.cache_gb, to keep decoded items in memory")
    ways.append("data.prefetch" if workers else "data.batch_size")
    return f"Raise {', or '.join(ways)}; or store smaller images."

"""Says once that training waits for its data, and what to raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.datasets.workers import processors
from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook
from trainer.rundir import WarningEvent

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.configs.data import DataConfig

SHARE = 0.2
"""From this share of the time spent waiting on, training is held back by its data …"""
SECONDS = 20.0
"""… where it has been so for so long."""


class InputBound(Hook):
    """Looks at the share of the time that steps wait for data, each time it is told."""

    order, is_inline = 15, True

    def __init__(self, data: DataConfig) -> None:
        self.data = data
        self._waited = self._seconds = 0.0
        self._is_told = False

    @classmethod
    def for_config(cls, config: RunConfig) -> InputBound:
        return cls(config.data)

    def after_log(self, training: TrainingHandle, moment: Moment) -> None:
        reading = training.reading
        if reading is None or self._is_told:
            return
        if reading.data_wait < SHARE:
            self._waited = self._seconds = 0.0
            return
        self._waited += reading.data_wait * reading.seconds
        self._seconds += reading.seconds
        if self._seconds >= SECONDS:
            self._is_told = True
            workers = training.splits.train.workers
            training.tell(WarningEvent(
                f"Training waits for data {self._waited / self._seconds:.0%} of the time. "
                + advice(self.data, workers.workers, processors())
            ))  # fmt: skip


def advice(data: DataConfig, workers: int, available: int) -> str:
    """What to change, for so many workers and processors."""
    ways = []
    if workers < available:
        ways.append(f"data.workers (now {workers}; {available} processors)")
    if data.cache_gb == 0:
        ways.append("data.cache_gb, so that what is decoded stays in memory")
    ways.append("data.prefetch" if workers else "data.batch_size")
    return f"Raise {', or '.join(ways)}; or store smaller images."

"""Passes metrics to schedules that monitor them."""

from __future__ import annotations

from trainer import TrainerError
from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook


class FeedSchedules(Hook):
    """Passes every new value to the schedules of the learning rates."""

    order, is_inline = 45, True

    def after_log(self, training: TrainingHandle, moment: Moment) -> None:
        self._tell(training, moment, "train")

    def after_validation(self, training: TrainingHandle, moment: Moment) -> None:
        self._tell(training, moment, "valid")

    def _tell(self, training: TrainingHandle, moment: Moment, split: str) -> None:
        for optimizer in training.optimizers.values():
            for rate in optimizer.learning_rates().values():
                for metric in rate.awaited_metrics():
                    if metric.startswith(f"{split}/") and metric not in moment.measured:
                        raise TrainerError(
                            f"a plateau schedule monitors {metric!r}, which is not computed",
                            expected=", ".join(sorted(moment.metrics)),
                        )
                rate.observe(moment.measured)

"""Hooks: code that runs at certain points of training. Everything in the loop except the step itself is a hook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.verdict import Verdict

if TYPE_CHECKING:
    from trainer.configs import RunConfig


def value_of(metric: str, setting: str, values: Mapping[str, float], known: Mapping[str, float]) -> float:
    """The value of the metric that a config setting names, by "split/name".

    Raises:
        TrainerError: it is not in `values`; `known` are the possible names.
    """
    value = values.get(metric)
    if value is None:
        raise TrainerError(f"{setting} {metric!r} is not computed", expected=", ".join(sorted(known)))
    return value


class Hook:
    """Base class of hooks: override the methods you need.

        class Tell(Hook):
            def after_validation(self, training, moment):
                print(moment.step, moment.measured)

            # config.yaml:   hooks: [{name: "./tell.py:Tell"}]

    Hooks run in the order of `order`; with equal order, as given. `training.request("stop")` (or checkpoint, evaluate,
    pause) is executed within one step. `training.latest()` waits for the current step and reads the metrics since the
    last log record.

    A custom hook runs in a separate thread, one call after the other, so the loop never waits for it. A hook that must
    act between two steps sets `is_inline = True`; the loop then waits for it. If a method of an inline hook returns a
    `Verdict`, the training ends or returns to its last checkpoint, and later hooks are skipped.
    """

    order: int = 100
    is_inline: bool = False

    @classmethod
    def for_config(cls, config: RunConfig) -> Hook | None:
        """The hook for a config; None: not enabled."""
        return cls()

    def on_start(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """Before training starts or resumes; the model is built and restored."""
        return None

    def before_step(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """Before each step."""
        return None

    def after_step(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """After each step (its results may still be computing)."""
        return None

    def before_validation(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """Before the validation split is evaluated."""
        return None

    def after_validation(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """After the validation split was evaluated."""
        return None

    def after_log(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """After training metrics were read and logged."""
        return None

    def after_checkpoint(self, training: TrainingHandle, moment: Moment) -> None:
        """After a checkpoint was completed; a thread writes it, so it may belong to an earlier step."""

    def on_end(self, training: TrainingHandle, moment: Moment) -> None:
        """After training has ended or was stopped."""

    def on_error(self, training: TrainingHandle, moment: Moment) -> None:
        """After training has failed."""


def is_due(step: int, *, every_steps: int | None, every_epochs: int | None, steps_per_epoch: int) -> bool:
    """Whether an action with an interval in steps or epochs (default: 1 epoch) is due after `step`."""
    if every_steps is not None:
        return step % every_steps == 0
    return step % (steps_per_epoch * (every_epochs or 1)) == 0

"""Hooks: code at moments of the training. Everything that the loop does beside stepping is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.verdict import Verdict

if TYPE_CHECKING:
    from trainer.configs import RunConfig


def value_of(metric: str, setting: str, values: Mapping[str, float], known: Mapping[str, float]) -> float:
    """The value of the metric that a setting of the config names, by "split/name".

    Raises:
        TrainerError: it is not among `values`; `known` are those that could have been named.
    """
    value = values.get(metric)
    if value is None:
        raise TrainerError(f"{setting} {metric!r} is not measured", expected=", ".join(sorted(known)))
    return value


class Hook:
    """Base of hooks: override the moments that matter.

        class Tell(Hook):
            def after_validation(self, training, moment):
                print(moment.step, moment.measured)

            # config.yaml:   hooks: [{name: "./tell.py:Tell"}]

    Hooks run in the order of `order`, those of equal order as they were given. `training` is the training under way:
    `training.request("stop")` (or checkpoint, evaluate, pause) is carried out within a step; `training.latest()` waits
    for the running step and reads the metrics since the last log.

    A hook of one's own runs in a thread of its own, one moment after the other, so that it can take its time: the loop
    never waits for it. One that has to act between two steps says `is_inline = True` and keeps the loop waiting. A
    moment of it that returns a `Verdict` ends the training, or takes it back to its last checkpoint; hooks after it are
    left out.
    """

    order: int = 100
    is_inline: bool = False

    @classmethod
    def for_config(cls, config: RunConfig) -> Hook | None:
        """The hook as a config asks for it; None: not at all."""
        return cls()

    def on_start(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """Training is about to begin or to go on; the model is built and restored."""
        return None

    def before_step(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """The next step is about to be run."""
        return None

    def after_step(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """A step is done (its results may still be on their way)."""
        return None

    def before_validation(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """The validation split is about to be evaluated."""
        return None

    def after_validation(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """The validation split was evaluated."""
        return None

    def after_log(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        """The training metrics since the last time were read and told."""
        return None

    def after_checkpoint(self, training: TrainingHandle, moment: Moment) -> None:
        """A checkpoint is complete; a thread writes it, so it may be of an earlier step."""

    def on_end(self, training: TrainingHandle, moment: Moment) -> None:
        """Training has ended well, or was stopped."""

    def on_error(self, training: TrainingHandle, moment: Moment) -> None:
        """Training has ended by an error."""


def is_due(step: int, *, every_steps: int | None, every_epochs: int | None, steps_per_epoch: int) -> bool:
    """Whether something that is done every so many steps, or epochs (1 by default), is due after `step`."""
    if every_steps is not None:
        return step % every_steps == 0
    return step % (steps_per_epoch * (every_epochs or 1)) == 0

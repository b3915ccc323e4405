"""What was asked for from outside while training: evaluate, checkpoint (stop, pause and resume are the inbox's)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.learner.hooks.hook import Hook, Moment

if TYPE_CHECKING:
    from trainer.learner.training import Training


class AnswerRequests(Hook):
    """Carries out what waits, before each step."""

    order, is_inline = 0, True

    def before_step(self, training: Training, moment: Moment) -> None:
        inbox = training.inbox
        inbox.check()
        while (request := inbox.next("evaluate")) is not None:
            training.validate()
            inbox.done(request)
        if training.progress.best_is_unsaved:
            training.saving.save("best")
        training.save_as_asked()

"""Executes requests from outside during training: evaluate, checkpoint. The inbox handles stop, pause and resume."""

from __future__ import annotations

from trainer.learner.hooks.handle import Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook
from trainer.learner.verdict import Verdict


class AnswerRequests(Hook):
    """Executes waiting requests before each step."""

    order, is_inline = 0, True

    def before_step(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
        inbox = training.inbox
        inbox.check_together()
        while (request := inbox.next("evaluate")) is not None:
            if (verdict := training.validate()) is not None:
                return verdict
            inbox.done(request)
        if training.progress.best_is_unsaved and (verdict := training.saving.save("best")) is not None:
            return verdict
        return training.save_as_asked()

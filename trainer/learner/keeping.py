"""Saves trainings outside of the config's schedule, and resumes from checkpoints."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from trainer.learner.deferred_actions import DeferredActions
from trainer.learner.guards import NanGuard
from trainer.learner.inbox import Inbox, Stopped
from trainer.learner.measuring import Measuring
from trainer.learner.phases import phase
from trainer.learner.ranks import ALONE, Group
from trainer.learner.saving import Saving
from trainer.learner.state import TrainingState
from trainer.learner.verdict import Verdict
from trainer.rundir import EventSink, ResumedEvent, WarningEvent

LATE_VALUES_SECONDS = 4.0
"""Seconds that a stop waits for evaluations in other processes; later results are computed again after a resume."""


class Keeping:
    """Saves on request and at a stop; resumes; rolls back.

    Args:
        most_rollbacks: maximum number of rollbacks.

    Attributes:
        is_forced: whether to resume from a checkpoint with another data position, seed or numerics.
        is_over: whether saving has ended: the weights may be those of the best checkpoint.
    """

    def __init__(
        self,
        state: TrainingState,
        saving: Saving,
        *,
        guard: NanGuard,
        deferred: DeferredActions,
        measuring: Measuring,
        inbox: Inbox,
        tell: EventSink,
        most_rollbacks: int,
        group: Group = ALONE,
    ) -> None:
        self._group = group
        self._state, self._saving, self._guard, self._deferred = state, saving, guard, deferred
        self._measuring, self._inbox, self._tell, self._most_rollbacks = measuring, inbox, tell, most_rollbacks
        self.is_forced = self.is_over = False

    def save_as_asked(self) -> Verdict | None:
        """Writes requested checkpoints; during a validation, the state before it."""
        ema = self._state.ema
        while (request := self._inbox.next("checkpoint")) is not None:
            if not self.is_over:
                with ema.out_of_place() if ema is not None else nullcontext():
                    verdict = self._saving.save("requested", wait=True)
                if verdict is not None:
                    return verdict
            self._inbox.done(request)
        return None

    def save_stopped(self, stop: Stopped) -> None:
        """Saves the state at an early end.

        An incomplete step is not saved if it would replace the checkpoint of a complete one.

        Raises:
            TrainingFailure: a guard's verdict, unless resuming continues from the last checkpoint as the verdict would.
        """
        progress = self._state.progress
        if stop.at_once or not progress.step or self.is_over:
            return
        verdict = self._deferred.settle()
        self._measuring.settle_within(LATE_VALUES_SECONDS)
        if verdict is None and not (progress.micro_batch and progress.is_saved_whole):
            verdict = self._saving.save("stopped", wait=True)
        self._group.from_first()  # until here, rank 0 may ask the others for their part of the state
        if verdict is not None and not self._goes_back(verdict):
            raise verdict.failure

    def go_on_from(self, place: Path) -> None:
        """Resumes from a checkpoint, or from the latest one of a run directory; see `is_forced`."""
        self._deferred.clear()
        with phase("resume", self._tell):
            if self._group.is_first:  # other ranks read the checkpoint that rank 0 found complete
                folder = self._state.take_up(place, is_forced=self.is_forced)
                self._group.from_first(folder)
            else:
                folder = self._state.take_up(self._group.from_first(), is_forced=self.is_forced)
            if self._saving.keeper is not None:
                self._saving.keeper.went_on_from(folder)
        self._guard.begin()
        self._tell(ResumedEvent(self._state.progress.step, f"checkpoints/{folder.name}"))

    def answer(self, verdict: Verdict) -> None:
        """Rolls back to the latest checkpoint, with a lower learning rate.

        Raises:
            TrainingFailure: the verdict does not allow a rollback, there is no checkpoint, or too many rollbacks
                happened.
        """
        if not self._goes_back(verdict):
            raise verdict.failure
        self._tell(WarningEvent(f"{verdict.failure} The run returns to step {self._state.progress.saved_step}."))
        self._saving.finish()
        rollbacks = self._state.progress.rollbacks + 1
        keeper = self._saving.keeper
        self.go_on_from(self._group.from_first(None if keeper is None else keeper.folder))
        self._state.progress.rollbacks, self._state.progress.recent = rollbacks, ()
        self._state.lower_learning_rates()

    def _goes_back(self, verdict: Verdict) -> bool:
        progress = self._state.progress
        return verdict.goes_back and progress.saved_step >= 0 and progress.rollbacks < self._most_rollbacks

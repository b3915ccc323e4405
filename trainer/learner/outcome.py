"""Converts the exception that ended a run to an outcome, and the outcome to the end event."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

from trainer import TrainerError
from trainer.configs.custom_class import own_mistake
from trainer.engine.targets import DeviceFailure
from trainer.learner.failures import TrainingFailure
from trainer.learner.inbox import Stopped
from trainer.rundir import EndEvent, EventSink, RunPaths, write_error

DONE, FAILURE, USER_MISTAKE = 0, 1, 2


@dataclass(frozen=True)
class Outcome:
    """The result of a run: `status` is done, stopped, pruned (by a sweep), interrupted or failed.

    `metrics` are the last values by "split/name"; `error` is the exception of a failed run.
    """

    status: str
    exit_code: int
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None
    error: BaseException | None = None

    def check(self) -> Outcome:
        """Raises the error of a failed run; otherwise returns the outcome."""
        if self.error is not None:
            raise self.error
        return self


def outcome_of(error: Exception, step: int, metrics: Mapping[str, float]) -> Outcome:
    """The outcome of a run that `error` ended: a stop, failed training, a user error, or an internal error.

    An exception of a custom task is a user error, shown with the lines of its files.
    """
    mistake = own_mistake(error)
    match error:
        case Stopped():
            return Outcome(error.status, error.exit_code, step, metrics, error.reason)
        case TrainingFailure() | DeviceFailure():
            return Outcome("failed", FAILURE, step, metrics, str(error), error)
        case TrainerError() if error.where is not None or mistake is None:
            return Outcome("failed", USER_MISTAKE, step, metrics, str(error), error)
    if mistake is not None:
        return Outcome("failed", USER_MISTAKE, step, metrics, mistake, error)
    return Outcome("failed", FAILURE, step, metrics, f"{type(error).__name__}: {error}", error)


def tell_end(outcome: Outcome, sink: EventSink, *, seconds: float, paths: RunPaths | None, attempt: int) -> None:
    """Emits the end event; the traceback of an internal error is first written to a file in the run directory.

    Raises:
        TrainerError: the run directory can't be written.
    """
    file = None
    if outcome.error is not None and not isinstance(outcome.error, TrainerError) and paths is not None:
        path = paths.traceback(attempt)
        try:
            path.write_text("".join(traceback.format_exception(outcome.error)), encoding="utf-8")
        except OSError as error:
            raise write_error(path, error) from outcome.error
        file = path.name
    sink(
        EndEvent(
            outcome.status,
            outcome.exit_code,
            outcome.step,
            round(seconds, 6),
            dict(outcome.metrics),
            outcome.reason,
            file,
        )
    )

"""The arguments of hooks: the moment, and an interface to the training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from trainer.learner.inbox import Inbox
    from trainer.learner.optimizers import Optimizer
    from trainer.learner.plan import DataSplits, Plan
    from trainer.learner.progress import Progress
    from trainer.learner.saving import Saving
    from trainer.learner.stopwatch import Reading
    from trainer.learner.verdict import Verdict
    from trainer.rundir import Event

MOMENTS = (
    "on_start", "before_step", "after_step", "before_validation", "after_validation", "after_log", "after_checkpoint",
    "on_end", "on_error",
)  # fmt: skip


@dataclass(frozen=True)
class Moment:
    """A point in time of the training.

    step, epoch: progress of the training; epochs are fractional.
    metrics: the latest value of each metric, by "split/name". Nothing is computed or read for them.
    measured: at `after_log` and `after_validation`, the new values by "split/name".
    checkpoint: at `after_checkpoint`, its path relative to the run directory.
    error: at `on_error`, the exception that ended the training.
    """

    step: int
    epoch: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    checkpoint: str | None = None
    error: BaseException | None = None


class TrainingHandle(Protocol):
    """The running training.

    Attributes:
        plan: its length. metrics: the latest value of each metric, by "split/name".
        splits: its loaders. inbox: requests from outside.
        listeners: receive every event, in addition to the run's sink.
        saving: its checkpoints.
    """

    plan: Plan
    metrics: dict[str, float]
    splits: DataSplits
    inbox: Inbox
    listeners: list[Callable[[Event], None]]
    saving: Saving

    @property
    def progress(self) -> Progress:
        """The progress of the training."""

    @property
    def reading(self) -> Reading | None:
        """The speed of the steps before the last log record."""

    @property
    def optimizers(self) -> Mapping[str, Optimizer]:
        """The task's optimizers, by name."""

    def moment(self, **fields: Any) -> Moment:
        """The current moment, with further fields."""

    def tell(self, event: Event) -> None:
        """Emits an event; callable from any thread."""

    def request(self, what: str) -> None:
        """Requests stop, checkpoint, evaluate, pause or resume, which is executed within one step. Callable from any
        thread.
        """

    def finish(self, reason: str) -> None:
        """Ends the training with status done after the current step."""

    def latest(self) -> dict[str, float]:
        """The training metrics since the last log record, read now. Waits for the current step."""

    def log(self) -> Verdict | None:
        """Logs the training metrics since the last record, once the step is done, and resets them."""

    def validate(self, limit: int | None = None) -> Verdict | None:
        """Evaluates the validation split."""

    def show_samples(self) -> None:
        """Writes the task's samples of the first validation batch, if it has any."""

    def save_as_asked(self) -> Verdict | None:
        """Writes requested checkpoints."""

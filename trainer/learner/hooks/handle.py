"""What hooks are handed: the moment, and the training under way as far as it is theirs."""

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
    """What a hook is told.

    step, epoch: how far the training is; epochs are fractional.
    metrics: what was measured so far, the latest by "split/name". Nothing is computed or read for them.
    measured: at `after_log` and `after_validation` what has just been measured, by "split/name".
    checkpoint: at `after_checkpoint` its place, relative to the run directory.
    error: at `on_error` what ended the training.
    """

    step: int
    epoch: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    checkpoint: str | None = None
    error: BaseException | None = None


class TrainingHandle(Protocol):
    """The training under way.

    Attributes:
        plan: how far it is to go. metrics: the latest of each metric, by "split/name".
        splits: its loaders. inbox: requests from outside.
        listeners: receive every event besides the run's own sink.
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
        """How far it is."""

    @property
    def reading(self) -> Reading | None:
        """The speed of the steps before the last log."""

    @property
    def optimizers(self) -> Mapping[str, Optimizer]:
        """The task's optimizers, by name."""

    def moment(self, **told: Any) -> Moment:
        """The moment that it is, with further fields."""

    def tell(self, event: Event) -> None:
        """Tell of an event; any thread may."""

    def request(self, what: str) -> None:
        """Ask for stop, checkpoint, evaluate, pause or resume; carried out within a step. Any thread may."""

    def finish(self, reason: str) -> None:
        """Let training end, as done, after the step that is under way."""

    def latest(self) -> dict[str, float]:
        """The training metrics since the last log, read now. Waits for the step that is under way."""

    def log(self) -> Verdict | None:
        """Tell of the training metrics since the last time, once the step is done, and begin anew."""

    def validate(self, limit: int | None = None) -> Verdict | None:
        """Evaluate the validation split."""

    def show_samples(self) -> None:
        """Write the task's samples of the first validation batch, where it has any."""

    def save_as_asked(self) -> Verdict | None:
        """Write the checkpoints that were asked for."""

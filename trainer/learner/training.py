"""A running training: the operations between two steps. Callers act on the returned verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from trainer.engine.sharding import Shards
from trainer.learner.checkpoints import DISK, Disk
from trainer.learner.deferred_actions import DeferredActions
from trainer.learner.evaluating import Evaluator
from trainer.learner.guards import NanGuard
from trainer.learner.hooks import Hook, Moment, hooks_for
from trainer.learner.inbox import Inbox
from trainer.learner.keeping import Keeping
from trainer.learner.measuring import Measuring
from trainer.learner.optimizers import Optimizer
from trainer.learner.plan import DataSplits, Plan
from trainer.learner.programs import Program, joined, train_program
from trainer.learner.progress import Progress
from trainer.learner.ranks import ALONE, Group
from trainer.learner.ranks.pace import DATA
from trainer.learner.records import Records
from trainer.learner.running import Runner
from trainer.learner.saving import Saving
from trainer.learner.state import TrainingState
from trainer.learner.stopwatch import Reading, Stopwatch
from trainer.learner.tally import Handed
from trainer.learner.task import Parts, Task
from trainer.learner.verdict import Verdict
from trainer.rundir import Event, EventSink, RunPaths

if TYPE_CHECKING:
    from trainer.datasets.loader import EpochBatches
    from trainer.learner.ema import Ema


LONG_STEP_SECONDS = 3.0
"""Seconds after which a step of several micro-batches may be stopped between two of them."""


class Training:
    """Trains, measures, reports and saves. Created after data and model; see `TrainingHandle`.

    Attributes:
        state: the training state. run: runs programs.
        records: measures and reports. keeping: resumes, rolls back, saves at a stop.
    """

    def __init__(
        self,
        task: Task,
        splits: DataSplits,
        plan: Plan,
        inbox: Inbox,
        sink: EventSink,
        *,
        paths: RunPaths | None,
        hooks: Sequence[Hook] = (),
        disk: Disk = DISK,
        shards: Shards | None = None,
        group: Group = ALONE,
    ) -> None:
        config = self.config = task.config
        self.task, self.splits, self.plan, self.inbox, self.paths = task, splits, plan, inbox, paths
        self.group = group
        self.run = Runner(config, self.tell, inbox.check, group)
        self.measuring = Measuring(config, self.tell, paths, group)
        self.measuring.name_classes(tuple(getattr(splits.train.dataset, "class_names", ())))
        self.listeners: list[Callable[[Event], None]] = []
        state = self.state = TrainingState(task, splits, plan, self.measuring, self.tell)
        self.metrics = state.metrics
        group.answer = state.own_share
        self.hooks = hooks_for(config if group.is_first else config.model_copy(update={"hooks": ()}), hooks)
        self._sink = sink
        tally = self.measuring.train.tally
        guard = NanGuard(config.train, state, tally, self.tell)
        self.saving = Saving(
            state, config.checkpoint, paths, tell=self.tell, deferred=self.deferred, stopwatch=self.stopwatch,
            guard=guard, disk=disk, group=group,
            on_complete=lambda path: self._notify("after_checkpoint", checkpoint=path),
        )  # fmt: skip
        self._train_program = train_program(
            task, state.random, tally, self.run.compiling, state.number, loss_scale=state.loss_scale, ema=state.ema,
            shards=shards,
        )  # fmt: skip
        self.keeping = Keeping(
            state, self.saving, guard=guard, deferred=self.deferred, measuring=self.measuring, inbox=inbox,
            tell=self.tell,
            most_rollbacks=config.train.nan_limit,
            group=group,
        )  # fmt: skip
        self.evaluator = Evaluator(
            task, self.measuring, self.run, self.tell, paths, self._between_batches, shards, group
        )
        self.records = Records(
            state, splits, plan, measuring=self.measuring, evaluator=self.evaluator, run=self.run, guard=guard,
            tell=self.tell, notify=self._notify,
        )  # fmt: skip
        self.measuring.await_for(self.optimizers)
        self.measuring.late = self.metrics.update

    # --- events ---------------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Emits an event; callable from any thread."""
        self._sink(event)
        for listener in self.listeners:
            listener(event)

    def moment(self, **fields: Any) -> Moment:
        """The current moment, for hooks."""
        return Moment(
            **{"step": self.progress.step, "epoch": self.records.epoch, "metrics": dict(self.metrics), **fields}
        )

    def request(self, what: str) -> None:
        """Requests stop, checkpoint, evaluate, pause or resume, which is executed within one step. Callable from any
        thread.
        """
        self.inbox.ask(what)

    def finish(self, reason: str) -> None:
        """Ends the training with status done after the current step."""
        self.progress.finished = reason

    def _notify(self, moment: str, **fields: Any) -> Verdict | None:
        return self.hooks(moment, self, **fields)

    @property
    def progress(self) -> Progress:
        """The progress of the training."""
        return self.state.progress

    @property
    def parts(self) -> Parts:
        """The task's modules, optimizers and states."""
        return self.state.parts

    @property
    def optimizers(self) -> Mapping[str, Optimizer]:
        """The task's optimizers, by name."""
        return self.parts.optimizers

    @property
    def ema(self) -> Ema | None:
        """The averaged weights."""
        return self.state.ema

    @property
    def deferred(self) -> DeferredActions:
        """The actions that wait for the current step."""
        return self.run.deferred

    @property
    def stopwatch(self) -> Stopwatch:
        """The stopwatch of steps."""
        return self.run.stopwatch

    # --- stepping -------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Sets the model to training mode, before the first of several steps."""
        self._train_program.prepare(self.progress.step)

    def step(self, batches: Iterator[Mapping[str, Any]]) -> Verdict | None:
        """Takes a step on one batch, or on several with gradient accumulation; returns the verdict on previous steps.

        Raises:
            Stopped: training has to end, and the step takes too long. Completed micro-batches are kept.
        """
        progress, begun, waited = self.progress, time.monotonic(), self.group.waited
        if any(progress.step in optimizer.unfreezing_steps for optimizer in self.optimizers.values()):
            self.prepare()
        epoch, step = progress.position(self.plan)
        first = step * self.config.train.accumulate
        count = min(self.config.train.accumulate, self.splits.train.steps_per_epoch - first)
        for index in range(progress.micro_batch, count):
            if time.monotonic() - begun > LONG_STEP_SECONDS:
                self.inbox.check()  # no effect with several processes, whose clocks differ
            take = partial(self._hand_over, at=("train", epoch, first + index))
            with self.group.pace.during(DATA):
                batch = next(batches)
            self.run(self._train_program, "train step", batch, index + 1 == count, then=take)
            if self.deferred.verdict is not None:
                return self.deferred.verdict
            progress.micro_batch = index + 1
        progress.step, progress.micro_batch = progress.step + 1, 0
        self.group.pace.note_step(progress.step, time.monotonic() - begun, self.group.waited - waited)
        self.measuring.settle()
        return None

    def _hand_over(self, handed: list[Handed], at: tuple[Any, ...]) -> None:
        """Passes on the rows of a batch from all processes."""
        rows = self.splits.train.batch_size // self.config.train.shards
        self.measuring.train.hand_over(joined(self.group, handed), at, rows)

    def epoch(self, epoch: int, first: int) -> EpochBatches:
        """The training batches of an epoch, from step `first` on, or from its next micro-batch on."""
        is_last = 0 < self.plan.total_steps <= (epoch + 1) * self.plan.steps_per_epoch
        start = first * self.config.train.accumulate + self.progress.micro_batch
        return self.splits.train.epoch(epoch, start=start, continues=not is_last)

    def rehearse(self) -> None:
        """Runs the training and validation steps once, to compile them."""
        self.prepare()
        self.run(self._train_program, "train step", self.splits.train.batch(0, 0), True, then=lambda handed: None)
        for loader in self.splits.all()[1:2]:
            self.evaluator.rehearse(loader)

    def traced_step(self) -> Program:
        """The program of a step, for inspection; called with a batch and whether it is the last of the step."""
        return self._train_program

    # --- measuring ------------------------------------------------------------------------------------------------

    def latest(self) -> dict[str, float]:
        """The training metrics since the last log record, read now. Waits for the current step."""
        self.deferred.settle()
        return self.measuring.train.values()

    @property
    def reading(self) -> Reading | None:
        """The speed of the steps before the last log record."""
        return self.records.reading

    def log(self) -> Verdict | None:
        """Logs the training metrics since the last record, once the step is done, and resets them."""
        return self.records.log()

    def validate(self, limit: int | None = None) -> Verdict | None:
        """Evaluates `limit` batches of the validation split, or as many as the config sets."""
        verdict = self.records.validate(limit or self.config.validate.batches)
        self.prepare()
        return verdict

    def show_samples(self) -> None:
        """Writes the task's samples of the first validation batch, if it has any."""
        self.records.show_samples()
        self.prepare()

    def test(self) -> None:
        """Evaluates the test splits with the last weights, or the best ones if the config keeps them.

        With `validate.test: false` nothing is evaluated.
        """
        self.keeping.is_over = True
        if (best := self.group.from_first(self.saving.best())) is not None:
            self.state.take_weights(best)
        if self.config.validate.test:
            self.records.test()

    def save_as_asked(self) -> Verdict | None:
        """Writes requested checkpoints; during a validation, the state before it."""
        return self.keeping.save_as_asked()

    def agreed(self, verdict: Verdict | None) -> Verdict | None:
        """The verdict of rank 0, whose clock and files also decide whether the training is over."""
        if self.group.size > 1:
            own = verdict, self.progress.finished, self.progress.seconds, self.progress.saved_step
            verdict, self.progress.finished, self.progress.seconds, self.progress.saved_step = self.group.from_first(
                own
            )
        return verdict

    def _between_batches(self) -> None:
        self.inbox.check_together()
        self.save_as_asked()

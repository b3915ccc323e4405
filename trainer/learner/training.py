"""A training under way: what can be done with it between two steps. Whoever asks for something acts on its verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.engine import State
from trainer.learner.checkpoints import DISK, Disk
from trainer.learner.evaluating import Evaluator
from trainer.learner.guards import NanGuard
from trainer.learner.hooks import Hook, Moment, hooks_for
from trainer.learner.inbox import Inbox, Stopped
from trainer.learner.late import Late, Read
from trainer.learner.measuring import AVERAGED, Measuring, Occasion
from trainer.learner.optimizers import Optimizer, learning_rates
from trainer.learner.phases import phase
from trainer.learner.plan import DataSplits, Plan
from trainer.learner.programs import Program, train_program
from trainer.learner.progress import Progress
from trainer.learner.running import Runner
from trainer.learner.saving import Saving
from trainer.learner.state import TrainingState
from trainer.learner.stopwatch import Reading, Stopwatch
from trainer.learner.task import Parts, Task
from trainer.learner.verdict import Verdict
from trainer.rundir import Event, EventSink, MetricEvent, ResumedEvent, RunPaths, SystemEvent, WarningEvent

if TYPE_CHECKING:
    from trainer.datasets import Loader
    from trainer.datasets.loader import EpochBatches
    from trainer.learner.ema import Ema


LONG_STEP_SECONDS = 3.0
"""A step of several micro-batches that has taken longer than this may be stopped between two of them."""
LATE_VALUES_SECONDS = 4.0
"""How long a stop waits for what is still being evaluated aside; what comes later is evaluated again after a resume."""


class Training:
    """Steps, measures, tells and saves. Made once data and model are there; see `TrainingHandle`.

    Attributes:
        state: what the next step depends on. run: runs programs.
        is_forced: whether a checkpoint is taken up whose position, seed or numerics do not carry over.
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
    ) -> None:
        config = self.config = task.config
        self.task, self.splits, self.plan, self.inbox, self.paths = task, splits, plan, inbox, paths
        self.run = Runner(config, self.tell, inbox.check)
        self.reading: Reading | None = None
        self.measuring = Measuring(config, self.tell, paths)
        self.measuring.name_classes(tuple(getattr(splits.train.dataset, "class_names", ())))
        self.listeners: list[Callable[[Event], None]] = []
        state = self.state = TrainingState(task, plan, self.measuring, self.tell)
        self.metrics = state.metrics
        self.hooks = hooks_for(config, hooks)
        self._sink = sink
        tally = self.measuring.train.tally
        self._guard = NanGuard(config.train, state, tally, self.tell)
        self.saving = Saving(
            state, config.checkpoint, paths, tell=self.tell, late=self.late, stopwatch=self.stopwatch,
            guard=self._guard, disk=disk,
            on_complete=lambda path: self.hooks("after_checkpoint", self, checkpoint=path),
        )  # fmt: skip
        self.is_forced = False
        self._is_saved_for_good = False
        self._train_program = train_program(
            task, state.random, tally, self.run.compiling, state.number, loss_scale=state.loss_scale, ema=state.ema
        )
        self._evaluator = Evaluator(task, self.measuring, self.run, self.tell, paths, self._between_batches)
        self.measuring.await_for(self.optimizers)
        self.measuring.late = self.metrics.update

    # --- telling --------------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Tell of an event; any thread may."""
        self._sink(event)
        for listener in self.listeners:
            listener(event)

    def moment(self, **told: Any) -> Moment:
        """The moment that it is, for hooks."""
        return Moment(**{"step": self.progress.step, "epoch": self._epoch(), "metrics": dict(self.metrics), **told})

    def request(self, what: str) -> None:
        """Ask for stop, checkpoint, evaluate, pause or resume; carried out within a step. Any thread may."""
        self.inbox.ask(what)

    def finish(self, reason: str) -> None:
        """Let training end, as done, after the step that is under way."""
        self.progress.finished = reason

    def _epoch(self) -> float:
        return round(self.progress.step / self.plan.steps_per_epoch, 6)

    @property
    def progress(self) -> Progress:
        """How far it is."""
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
    def late(self) -> Late:
        """What waits for the step under way."""
        return self.run.late

    @property
    def stopwatch(self) -> Stopwatch:
        """The time of steps."""
        return self.run.stopwatch

    # --- stepping -------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Put the model into training mode, before the first of several steps."""
        self._train_program.prepare()

    def step(self, batches: Iterator[Mapping[str, Any]]) -> Verdict | None:
        """One step on the next of the batches, on several where gradients are accumulated; the verdict on those before.

        Raises:
            Stopped: training is to end, and the step takes longer than that can wait. What is done of it is kept.
        """
        progress, begun = self.progress, time.monotonic()
        epoch, step = progress.position(self.plan)
        first = step * self.config.train.accumulate
        count = min(self.config.train.accumulate, self.splits.train.steps_per_epoch - first)
        for index in range(progress.micro_batch, count):
            if time.monotonic() - begun > LONG_STEP_SECONDS:
                self.inbox.check()
            hand_over = partial(self.measuring.train.hand_over, at=("train", epoch, first + index))
            self.run(self._train_program, "train step", next(batches), index + 1 == count, then=hand_over)
            if self.late.verdict is not None:
                return self.late.verdict
            progress.micro_batch = index + 1
        progress.step, progress.micro_batch = progress.step + 1, 0
        self.measuring.settle()
        return None

    def epoch(self, epoch: int, first: int) -> EpochBatches:
        """The training batches of an epoch from its step number `first` on, or from within that."""
        is_last = 0 < self.plan.total_steps <= (epoch + 1) * self.plan.steps_per_epoch
        start = first * self.config.train.accumulate + self.progress.micro_batch
        return self.splits.train.epoch(epoch, start=start, continues=not is_last)

    def rehearse(self) -> None:
        """Run the training and the validation step once, so that they are compiled."""
        self.prepare()
        self.run(self._train_program, "train step", self.splits.train.batch(0, 0), True, then=lambda handed: None)
        for loader in self.splits.all()[1:2]:
            self._evaluator.rehearse(loader)

    def check_metrics(self) -> None:
        """Refuse, before the first step, metrics that can't be computed (`Evaluator.check_metrics`)."""
        self._evaluator.check_metrics(self.splits)

    def traced_step(self) -> Program:
        """The program of a step, for those who look into it; called with a batch and whether it is the step's last."""
        return self._train_program

    # --- measuring ------------------------------------------------------------------------------------------------

    def latest(self) -> dict[str, float]:
        """The training metrics since the last log, read now. Waits for the step that is under way."""
        self.late.settle()
        return self.measuring.train.values()

    def log(self) -> Verdict | None:
        """Tell of the training metrics since the last time, once the step is done, and begin anew."""
        snapshot, occasion = self.state.snapshot(), self._occasion("train", self.splits.train)
        rates = learning_rates(self.optimizers, self.progress.step)
        self.measuring.train.tally.reset()
        verdict = self.late.add(partial(self._log, snapshot, occasion, rates))
        return self.late.settle() if self.measuring.awaits("train") else verdict

    def _log(self, read: Read, occasion: Occasion, rates: Mapping[str, float]) -> Verdict | None:
        if (verdict := self._guard(read)) is not None:
            return verdict
        values = self.measuring.take(self.measuring.train, occasion, read)
        reading = self.reading = self.stopwatch.take(self.splits.train.data_wait)
        speed = {} if reading is None else {"samples_per_second": round(reading.samples_per_second, 3)}
        self._tell_metrics(occasion, {**values, **rates, **self.state.scaling(read), **speed})
        if reading is not None:
            self.tell(SystemEvent(
                data_wait=round(reading.data_wait, 4), step_ms=round(reading.step_ms, 3), metric_lag=self.measuring.lag
            ))  # fmt: skip
        return self._note("after_log", occasion, values)

    def validate(self, limit: int | None = None) -> Verdict | None:
        """Evaluate the validation split (`limit` batches, or as the config says), with averaged weights too if any.

        Not where the guard has a verdict, so that none comes up within.
        """
        loader = self.splits.valid
        if loader is None:
            return None
        if (verdict := self.late.settle() or self._guard(State.numpy)) is not None:
            return verdict
        with self.stopwatch.apart():
            if (verdict := self.hooks("before_validation", self)) is not None:
                return verdict
            values = self.evaluate(loader, "valid", limit=limit or self.config.validate.batches)
            self.progress.validated_step = self.progress.step
            occasion = self._occasion("valid", loader)
            self._tell_metrics(occasion, values)
            verdict = self._note("after_validation", occasion, values)
        self.prepare()
        return verdict

    def test(self) -> None:
        """Evaluate the test splits with the last weights, or the best where the config keeps them."""
        self._is_saved_for_good = True
        best = self.saving.best()
        if best is not None:
            self.state.take_weights(best)
        for split, loader in self.splits.tests().items():
            values = self.evaluate(loader, split, name="evaluate")
            self.metrics.update({f"{split}/{name}": value for name, value in values.items()})
            self._tell_metrics(self._occasion(split, loader), values, final=True)

    def evaluate(
        self, loader: Loader, split: str, *, name: str = "validate", limit: int | None = None
    ) -> dict[str, float]:
        """The metrics of a loader's batches (of the first `limit`), those of the averaged weights as "ema/name"."""
        occasion = self._occasion(split, loader)
        values = self._evaluator(loader, occasion, name=name, limit=limit, finds_worst=self.ema is None)
        if self.ema is not None:
            with self.ema.in_place():
                averaged = replace(occasion, prefix=AVERAGED)
                values.update(self._evaluator(loader, averaged, name=name, limit=limit))
        return values

    def show_samples(self) -> None:
        """Write the task's samples of the first validation batch, where it has any."""
        loader = self.splits.valid
        if loader is None or not self._evaluator.has_samples:
            return
        with self.stopwatch.apart(), self.ema.in_place() if self.ema is not None else nullcontext():
            self._evaluator.show_samples(loader, step=self.progress.step)
        self.prepare()

    def _between_batches(self) -> None:
        self.inbox.check()
        self.save_as_asked()

    def _occasion(self, split: str, loader: Loader) -> Occasion:
        names = tuple(getattr(loader.dataset, "class_names", ()))
        return Occasion(self.progress.step, self._epoch(), split, names)

    def _tell_metrics(self, occasion: Occasion, values: Mapping[str, float], *, final: bool = False) -> None:
        self.tell(MetricEvent(occasion.step, occasion.epoch, occasion.split, dict(values), final))

    def _note(self, moment: str, occasion: Occasion, values: Mapping[str, float]) -> Verdict | None:
        measured = {f"{occasion.split}/{name}": value for name, value in values.items()}
        self.metrics.update(measured)
        return self.hooks(moment, self, measured=measured, step=occasion.step, epoch=occasion.epoch)

    # --- keeping --------------------------------------------------------------------------------------------------

    def save_as_asked(self) -> Verdict | None:
        """Write the checkpoints that were asked for. In a validation it is one from before that."""
        while (request := self.inbox.next("checkpoint")) is not None:
            if not self._is_saved_for_good:
                with self.ema.out_of_place() if self.ema is not None else nullcontext():
                    verdict = self.saving.save("requested", wait=True)
                if verdict is not None:
                    return verdict
            self.inbox.done(request)
        return None

    def go_on_from(self, place: Path) -> None:
        """Take up a checkpoint, or the latest of a run directory; see `is_forced`."""
        self.late.clear()
        with phase("resume", self.tell):
            folder = self.state.take_up(place, is_forced=self.is_forced)
            if self.saving.keeper is not None:
                self.saving.keeper.went_on_from(folder)
        self._guard.begin()
        self.tell(ResumedEvent(self.progress.step, f"checkpoints/{folder.name}"))

    def can_go_back(self, verdict: Verdict) -> bool:
        """Whether the verdict is to go back, there is a checkpoint, and it was not done too often."""
        progress = self.progress
        return verdict.goes_back and progress.saved_step >= 0 and progress.rollbacks < self.config.train.nan_limit

    def answer(self, verdict: Verdict) -> None:
        """Go back to the latest checkpoint, with a lower learning rate than last time.

        Raises:
            TrainingFailure: the verdict's, where the training can't go back.
        """
        if not self.can_go_back(verdict):
            raise verdict.failure
        assert self.saving.keeper is not None
        self.tell(WarningEvent(f"{verdict.failure} The run goes back to step {self.progress.saved_step}."))
        self.saving.finish()
        rollbacks = self.progress.rollbacks + 1
        self.go_on_from(self.saving.keeper.folder)
        self.progress.rollbacks, self.progress.recent = rollbacks, ()
        self.state.lower_learning_rates()

    def stopped(self, stop: Stopped) -> None:
        """Save what an end before the planned one leaves.

        Of a step that was begun, nothing is kept where it would take the place of a whole one's checkpoint.

        Raises:
            TrainingFailure: a guard's verdict, unless the last checkpoint is to be gone on from anyway.
        """
        progress = self.progress
        if stop.at_once or not progress.step or self._is_saved_for_good:
            return
        verdict = self.late.settle()
        self.measuring.settle_within(LATE_VALUES_SECONDS)
        if verdict is None and not (progress.micro_batch and progress.is_saved_whole):
            verdict = self.saving.save("stopped", wait=True)
        if verdict is not None and not self.can_go_back(verdict):
            raise verdict.failure

"""A training under way: the model, its programs, how far it is, and what can be done with it between two steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer import TrainerError
from trainer.engine import State, int64
from trainer.engine.nn import RandomState
from trainer.learner.checkpoints import DISK, STATE, Disk, checkpoint_folder, read_checkpoint, read_newest, restore
from trainer.learner.ema import Ema
from trainer.learner.evaluating import Evaluator
from trainer.learner.hooks import Hook, Moment, NanGuard, hooks_for
from trainer.learner.inbox import Inbox, Stopped
from trainer.learner.late import Late, Read, Snapshot
from trainer.learner.measuring import AVERAGED, Measuring, Occasion
from trainer.learner.optimizers import learning_rates
from trainer.learner.phases import phase
from trainer.learner.precision import LossScale
from trainer.learner.programs import Program, train_program
from trainer.learner.progress import Progress
from trainer.learner.running import Runner
from trainer.learner.saving import Saving
from trainer.learner.stopwatch import Reading, Stopwatch
from trainer.learner.task import (
    DataSplits,
    Plan,
    Task,
    facts_of,
    model_states,
    parts_of,
    states_within_step,
    training_states,
)
from trainer.rundir import Event, EventSink, MetricEvent, ResumedEvent, RunPaths, SystemEvent, WarningEvent

if TYPE_CHECKING:
    from trainer.datasets import Loader
    from trainer.datasets.loader import EpochBatches


LONG_STEP_SECONDS = 3.0
"""A step of several micro-batches that has taken longer than this may be stopped between two of them."""
LATE_VALUES_SECONDS = 4.0
"""How long a stop waits for what is still being evaluated aside; what comes later is evaluated again after a resume."""


class Training:
    """What hooks act on. Made once data and model are there.

    Attributes:
        progress: how far it is; plan: how far it is to go.
        metrics: the latest of each metric, by "split/name".
        parts: the task's modules, optimizers and states.
        reading: the speed of the steps before the last log.
        inbox: requests from outside.
        listeners: hear every event besides the run's own sink.
        saving: its checkpoints.
        run: runs programs.
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
        self.parts = parts_of(task)
        self.progress, self.metrics = Progress(), dict[str, float]()
        self.run = Runner(config, self.tell, inbox.check)
        self.reading: Reading | None = None
        self.measuring = Measuring(config, self.tell, paths)
        self.measuring.name_classes(tuple(getattr(splits.train.dataset, "class_names", ())))
        self.listeners: list[Callable[[Event], None]] = []
        self.ema = None if config.train.ema is None else Ema(config.train.ema, model_states(self.parts))
        self.hooks = hooks_for(config, hooks)
        self._sink = sink
        self._random = RandomState(config.seed)
        self.loss_scale = LossScale.for_config(config.train)
        self._number = State(np.zeros((), np.int64), "step", int64)
        self.saving = Saving(self, paths, disk)
        self.is_forced = False
        self._is_saved_for_good = False
        self._train_program = train_program(
            task,
            self._random,
            self.measuring.train.tally,
            self.run.compiling,
            self._number,
            loss_scale=self.loss_scale,
            ema=self.ema,
        )
        self._evaluator = Evaluator(task, self.measuring, self.run, self.tell, paths, self._between_batches)
        self.measuring.await_for(self.parts.optimizers)
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

    def step(self, batches: Iterator[Mapping[str, Any]]) -> None:
        """One step on the next of the batches, on several where gradients are accumulated.

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
            progress.micro_batch = index + 1
        progress.step, progress.micro_batch = progress.step + 1, 0
        self.measuring.settle()

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

    def log(self) -> None:
        """Tell of the training metrics since the last time, once the step is done, and begin anew."""
        snapshot, occasion = self.snapshot(), self._occasion("train", self.splits.train)
        rates = learning_rates(self.parts.optimizers, self.progress.step)
        self.measuring.train.tally.reset()
        self.late.add(partial(self._log, snapshot, occasion, rates))
        if self.measuring.awaits("train"):
            self.late.settle()

    def _log(self, read: Read, occasion: Occasion, rates: Mapping[str, float]) -> None:
        self.refuse_not_finite(read)
        values = self.measuring.take(self.measuring.train, occasion, read)
        reading = self.reading = self.stopwatch.take(self.splits.train.data_wait)
        speed = {} if reading is None else {"samples_per_second": round(reading.samples_per_second, 3)}
        self._tell_metrics(occasion, {**values, **rates, **self._scaling(read), **speed})
        if reading is not None:
            self.tell(SystemEvent(
                data_wait=round(reading.data_wait, 4), step_ms=round(reading.step_ms, 3), metric_lag=self.measuring.lag
            ))  # fmt: skip
        self._note("after_log", occasion, values)

    def validate(self) -> None:
        """Evaluate the validation split, with the averaged weights too where there are any."""
        loader = self.splits.valid
        if loader is None:
            return
        self.late.settle()
        self.refuse_not_finite(State.numpy)
        with self.stopwatch.apart():
            self.hooks("before_validation", self)
            values = self.evaluate(loader, "valid", limit=self.config.validate.batches)
            self.progress.validated_step = self.progress.step
            occasion = self._occasion("valid", loader)
            self._tell_metrics(occasion, values)
            self._note("after_validation", occasion, values)
        self.prepare()

    def test(self) -> None:
        """Evaluate the test splits with the last weights, or the best where the config keeps them."""
        self._is_saved_for_good = True
        best = self.saving.best()
        if best is not None:
            folder = checkpoint_folder(best)
            groups = {stem: group for stem, group in self.groups().items() if stem != "training"}
            restore(read_checkpoint(folder), groups, where=str(folder))
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

    def skipped_steps(self, read: Read = State.numpy) -> int:
        """How many steps were left out so far because a gradient was not finite."""
        return max((int(read(one.skipped_steps)) for one in self.parts.optimizers.values()), default=0)

    def snapshot(self) -> Snapshot:
        """What logs and guards read."""
        scale = [] if self.loss_scale is None else [self.loss_scale.factor]
        skipped = [one.skipped_steps for one in self.parts.optimizers.values()]
        return Snapshot([*self.measuring.train.tally.named_states().values(), *skipped, *scale])

    def _scaling(self, read: Read) -> dict[str, float]:
        if self.loss_scale is None or not self.loss_scale.is_dynamic:
            return {}
        return {"loss_scale": float(read(self.loss_scale.factor)), "skipped_steps": self.skipped_steps(read)}

    def _between_batches(self) -> None:
        self.inbox.check()
        self.save_as_asked()

    def _occasion(self, split: str, loader: Loader) -> Occasion:
        names = tuple(getattr(loader.dataset, "class_names", ()))
        return Occasion(self.progress.step, self._epoch(), split, names)

    def _tell_metrics(self, occasion: Occasion, values: Mapping[str, float], *, final: bool = False) -> None:
        self.tell(MetricEvent(occasion.step, occasion.epoch, occasion.split, dict(values), final))

    def _note(self, moment: str, occasion: Occasion, values: Mapping[str, float]) -> None:
        measured = {f"{occasion.split}/{name}": value for name, value in values.items()}
        self.metrics.update(measured)
        self.hooks(moment, self, measured=measured, step=occasion.step, epoch=occasion.epoch)

    # --- keeping --------------------------------------------------------------------------------------------------

    def state(self, progress: Progress) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
        """What the step after `progress` depends on besides states: for JSON, and arrays by file stem and name."""
        meter = self.measuring.train
        state = progress.to_json(self.config, self.plan, meter.tally.describe(), self.metrics)
        if self.measuring.is_pending(progress.validated_step):  # it would be lost: to be done again
            state["validated_step"] = -1
        state["facts"] = facts_of(self.task, self.splits)
        return state, {"metrics": meter.folded()}

    def save_as_asked(self) -> None:
        """Write the checkpoints that were asked for. In a validation it is one from before that."""
        while (request := self.inbox.next("checkpoint")) is not None:
            if not self._is_saved_for_good:
                with self.ema.out_of_place() if self.ema is not None else nullcontext():
                    self.saving.save("requested", wait=True)
            self.inbox.done(request)

    def go_on_from(self, place: Path) -> None:
        """Take up a checkpoint, or the latest of a run directory; see `is_forced`."""
        self.late.clear()
        with phase("resume", self.tell):
            folder, checkpoint = read_newest(place, lambda said: self.tell(WarningEvent(said)))
            try:
                self.progress = Progress.from_json(
                    checkpoint.state, self.config, self.plan, self.tell, where=str(folder), is_forced=self.is_forced
                )
                self.metrics.update({name: float(value) for name, value in checkpoint.state["metrics"].items()})
                self.measuring.train.tally.prepare(checkpoint.state["sums"])
            except (KeyError, TypeError, ValueError, AttributeError) as error:  # its hash is right: so it was written
                raise TrainerError("not the state of a training", where=str(folder / STATE),
                                   found=f"{type(error).__name__}: {error}"[:200]) from error  # fmt: skip
            folded = checkpoint.arrays.get("metrics", {})
            self.measuring.train.keep({name: array.values for name, array in folded.items()})
            restore(checkpoint, self.groups(), where=str(folder))
            self._number.set_value(np.asarray(self.progress.step))
            self._lower_learning_rates()
            if self.saving.keeper is not None:
                self.saving.keeper.went_on_from(folder)
        self.tell(ResumedEvent(self.progress.step, f"checkpoints/{folder.name}"))

    def roll_back(self) -> None:
        """Go back to the latest checkpoint, with a lower learning rate than last time."""
        assert self.saving.keeper is not None
        self.saving.finish()
        rollbacks = self.progress.rollbacks + 1
        self.go_on_from(self.saving.keeper.folder)
        self.progress.rollbacks, self.progress.recent = rollbacks, ()
        self._lower_learning_rates()

    def stopped(self, stop: Stopped) -> None:
        """Save what an end before the planned one leaves.

        Of a step that was begun, nothing is kept where it would take the place of a whole one's checkpoint.
        """
        progress = self.progress
        if stop.at_once or not progress.step or self._is_saved_for_good:
            return
        self.late.settle()
        self.measuring.settle_within(LATE_VALUES_SECONDS)
        if not (progress.micro_batch and progress.is_saved_whole):
            self.saving.save("stopped", wait=True)

    def _lower_learning_rates(self) -> None:
        scale = np.asarray(self.config.train.rollback_factor**self.progress.rollbacks)
        for optimizer in self.parts.optimizers.values():
            for rate in optimizer.learning_rates().values():
                rate.scale.set_value(scale)

    def groups(self) -> dict[str, dict[str, State]]:
        """All states that the next step depends on, by the file that a checkpoint keeps them in."""
        training = training_states(self.parts)
        training[self._random.counter.name] = self._random.counter
        training.update(self.measuring.train.tally.named_states())
        if self.loss_scale is not None and self.loss_scale.is_dynamic:
            training.update(self.loss_scale.named_states())
        groups = {"model": model_states(self.parts), "training": training}
        if self.progress.micro_batch:
            training.update(states_within_step(self.parts))
        if self.ema is not None:
            training[self.ema.steps.name] = self.ema.steps
            groups["ema"] = self.ema.averages
        return groups

    def refuse_not_finite(self, read: Read) -> None:
        """Act on a number that was not finite, if there was one."""
        self.hooks.one(NanGuard).check(self, read)

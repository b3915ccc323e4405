"""The Learner: runs a task from its data to its end event. Each policy is in a file of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError, engine
from trainer.engine.nn import RandomState
from trainer.learner.accumulators import Accumulators
from trainer.learner.checkpoints import CheckpointKeeper, checkpoint_folder, is_better, read_checkpoint, restore
from trainer.learner.device import device_for
from trainer.learner.failures import not_finite
from trainer.learner.inbox import Inbox, Stopped, TakeRequests
from trainer.learner.optimizers import learning_rates
from trainer.learner.outcome import DONE, Outcome, outcome_of, tell_end
from trainer.learner.phases import CompilePhases, Phase, phase
from trainer.learner.programs import Program, evaluation_program, set_mode, train_program
from trainer.learner.progress import Progress
from trainer.learner.samples import write_samples
from trainer.learner.stopwatch import Stopwatch
from trainer.learner.task import DataSplits, Parts, Plan, Task, model_states, parts_of, training_states
from trainer.learner.tuning import tuned
from trainer.learner.weights import load_weights
from trainer.rundir import (
    BadItemEvent,
    Event,
    EventSink,
    MetricEvent,
    Request,
    ResumedEvent,
    RunPaths,
    SystemEvent,
)

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.datasets import BadItem, Loader
    from trainer.engine.profiling import Profile


def _no_requests() -> Sequence[Request]:
    return ()


def _no_sink(event: Event) -> None:
    del event


class Learner:
    """Trains a task.

        outcome = Learner(Digits, RunConfig(task="digits", optimizer={"name": "adam"}, train={"epochs": 2})).run()

    Args:
        task_class: makes the task from (config, options).
        paths: the run directory for checkpoints and tracebacks; without one there are none.
        sink: hears every event.
        requests: hands over control requests; asked once a step.
        attempt: which attempt of the run this is.
        resume: a run directory or a checkpoint to go on from.
        wait: how to sleep while paused.
    """

    def __init__(
        self,
        task_class: Callable[[Any, Any], Task],
        config: RunConfig,
        options: Any = None,
        *,
        paths: RunPaths | None = None,
        sink: EventSink = _no_sink,
        requests: TakeRequests = _no_requests,
        attempt: int = 1,
        resume: Path | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.task = task_class(config, options)
        self.config, self.paths, self.attempt, self.resume = config, paths, attempt, resume
        self.inbox = Inbox(requests, sink, wait=wait)
        self.metrics: dict[str, float] = {}
        self.progress = Progress()
        self._sink = sink
        self._random = RandomState(config.seed)
        self._train_sums, self._valid_sums = Accumulators("train"), Accumulators("valid")
        self._stopwatch = Stopwatch()
        self._compile_phases = CompilePhases(sink)
        self._started = time.perf_counter()
        self._keeper = (
            CheckpointKeeper(paths.checkpoints, sink, keep_last=config.checkpoint.keep_last)
            if paths is not None
            else None
        )

    # --- the run --------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Train to the end, a request or a failure, and tell of the end; `Outcome.check()` raises what a run failed of.

        Raises:
            TrainerError: the end could not be told of, since the run directory can't be written.
        """
        try:
            with engine.device(device_for(self.config)), tuned(self.config.tuning, self._sink, self.inbox.check):
                outcome = self._run()
        except Exception as error:
            outcome = outcome_of(error, self.progress.step, self.metrics)
        seconds = time.perf_counter() - self._started
        tell_end(outcome, self._sink, seconds=seconds, paths=self.paths, attempt=self.attempt)
        return outcome

    def tune(self) -> None:
        """Measure the kernels of the training and the validation step now, and keep the decisions for later runs.

        Each decision is told of as an event. Steps are run on the first batches; nothing is trained.
        """
        tuning = self.config.tuning.model_copy(update={"mode": "upfront"})
        with engine.device(device_for(self.config)), tuned(tuning, self._sink, self.inbox.check):
            self._load_data()
            self._build()
            for program, name, loader in (
                (self._train_program, "train step", self.splits.train),
                (self._valid_program, "validation step", self.splits.valid or self.splits.test),
            ):
                if loader is not None:
                    program.prepare()
                    self._run_program(program, name, loader.batch(0, 0))

    def profile(self, *, steps: int, warm_up: int) -> Profile:
        """Where the time of a training step goes, on the first batch again and again; weights go on as they would.

        Args:
            steps: how many steps are measured.
            warm_up: how many go before, at least 1: the first is traced and compiled.

        Raises:
            TrainerError: the config's device has no profiles.
        """
        with engine.device(device_for(self.config)):
            self._load_data()
            self._build()
            self._train_program.prepare()
            batch = self.splits.train.batch(0, 0)
            self._run_program(self._train_program, "train step", batch)
            with phase("profile", self._sink):
                return engine.profile(self._train_program, batch, steps=steps, warm_up=warm_up - 1)

    def interrupt(self, signal_number: int) -> None:
        """End after the step that is under way, with a checkpoint; a signal handler may call it."""
        self.inbox.interrupt(signal_number)

    def _run(self) -> Outcome:
        self._load_data()
        self._build()
        if self.resume is not None:
            self._resume(self.resume)
        try:
            self._train()
        except Stopped as stop:
            if not stop.at_once and self.progress.step:
                self._save("stopped")
            raise
        self._test()
        return Outcome("done", DONE, self.progress.step, self.metrics)

    def _load_data(self) -> None:
        with phase("data", self._sink):
            self.splits: DataSplits = self.task.data()
            for loader in (self.splits.train, self.splits.valid, self.splits.test):
                if loader is not None and loader.on_bad_item is None:
                    loader.on_bad_item = self._tell_bad_item
        train = self.config.train
        steps_per_epoch = self.splits.train.steps_per_epoch
        total_steps = train.steps if train.steps is not None else (train.epochs or 0) * steps_per_epoch
        self.plan = self.task.plan = Plan(steps_per_epoch, total_steps)
        self.inbox.check()

    def _build(self) -> None:
        with phase("model", self._sink):
            self.task.build()
            self.parts: Parts = parts_of(self.task)
            if self.config.model.weights is not None:
                load_weights(self.config.model.weights, self.parts.modules)
        self._train_program = train_program(self.task, self._random, self._train_sums, self._compiling)
        self._valid_program = evaluation_program(self.task, self._valid_sums, self._compiling)
        self.inbox.check()

    def _train(self) -> None:
        with phase("train", self._sink, unit="step") as running:
            while True:
                if self.progress.epoch_end_is_due(self.plan):
                    self._end_epoch()
                if self.progress.step >= self.plan.total_steps:
                    break
                self._train_epoch(running)
        reasons = [] if self.progress.validated_step == self.progress.step else self._validate()
        if reasons or self.progress.saved_step != self.progress.step:
            self._save(*reasons, "end")

    def _train_epoch(self, running: Phase) -> None:
        """Steps to the end of the epoch or of the run."""
        epoch, first = self.progress.position(self.plan)
        loader = self.splits.train
        self._train_program.prepare()
        with loader.epoch(epoch, start=first) as batches, self._stopwatch.running():
            for batch in batches:
                self._answer_requests()
                self._run_program(self._train_program, "train step", batch)
                self.progress.step += 1
                if self._is_time_to_log():
                    self._log(loader)
                running.progress(self.progress.step, self.plan.total_steps, f"epoch {epoch + 1}")
                if self.progress.step >= self.plan.total_steps:
                    break

    def _end_epoch(self) -> None:
        epoch = self.progress.step // self.plan.steps_per_epoch
        is_last = self.progress.step >= self.plan.total_steps
        reasons = []
        if is_last or epoch % self.config.validate.every_epochs == 0:
            reasons += self._validate()
            self._show_samples()
        self.progress.finished_epochs = epoch
        if reasons or is_last or epoch % self.config.checkpoint.every_epochs == 0:
            self._save(*reasons, "epoch")

    # --- measuring ------------------------------------------------------------------------------------------------

    def _is_time_to_log(self) -> bool:
        step = self.progress.step
        return step == 1 or step % self.config.train.log_every_steps == 0 or step >= self.plan.total_steps

    def _log(self, loader: Loader) -> None:
        """Read the sums of the steps since the last time, tell of them and begin anew."""
        self._refuse_not_finite()
        values = self._train_sums.values()
        self._train_sums.reset()
        self._note("train", values)
        reading = self._stopwatch.take(loader.data_wait)
        speed = {} if reading is None else {"samples_per_second": round(reading.samples_per_second, 3)}
        self._tell_metrics("train", {**values, **learning_rates(self.parts.optimizers, self.progress.step), **speed})
        if reading is not None:
            self._sink(SystemEvent(data_wait=round(reading.data_wait, 4), step_ms=round(reading.step_ms, 3)))

    def _refuse_not_finite(self) -> None:
        if (bad := self._train_sums.first_not_finite()) is not None:
            rates = learning_rates(self.parts.optimizers, self.progress.step)
            raise not_finite(*bad, rates, self.progress.saved_step)

    def _tell_metrics(self, split: str, values: Mapping[str, float], *, final: bool = False) -> None:
        epoch = round(self.progress.step / self.plan.steps_per_epoch, 6)
        self._sink(MetricEvent(self.progress.step, epoch, split, dict(values), final))

    def _note(self, split: str, values: Mapping[str, float]) -> None:
        """Remember what was measured, and let schedules that wait for it see it."""
        measured = {f"{split}/{name}": value for name, value in values.items()}
        self.metrics.update(measured)
        for optimizer in self.parts.optimizers.values():
            for rate in optimizer.learning_rates().values():
                rate.observe(measured)

    def _tell_bad_item(self, item: BadItem) -> None:
        self._sink(BadItemEvent(item.source, item.reason, item.action, item.count))

    def _validate(self) -> list[str]:
        """Validate; ["best"] when the config's best metric improved."""
        if self.splits.valid is None:
            return []
        values = self._evaluate("validate", self.splits.valid)
        self.progress.validated_step = self.progress.step
        self._note("valid", values)
        self._tell_metrics("valid", values)
        best = self.config.checkpoint.best
        if best is None:
            return []
        if best.metric not in self.metrics:
            raise TrainerError(
                f"checkpoint.best.metric {best.metric!r} is not measured", expected=", ".join(sorted(self.metrics))
            )
        value = self.metrics[best.metric]
        if not is_better(value, self.progress.best_value, best.mode):
            return []
        self.progress.best_value = value
        return ["best"]

    def _test(self) -> None:
        """Evaluate the test split with the last weights, or the best where the config keeps them."""
        if self.splits.test is None:
            return
        if self._keeper is not None and self.config.checkpoint.best is not None and self._keeper.best_step is not None:
            folder = checkpoint_folder(self._keeper.folder / f"step-{self._keeper.best_step}")
            restore(read_checkpoint(folder), {"model": model_states(self.parts)}, where=str(folder))
        values = self._evaluate("evaluate", self.splits.test)
        self.metrics.update({f"test/{name}": value for name, value in values.items()})
        self._tell_metrics("test", values, final=True)

    def _show_samples(self) -> None:
        """Write the task's samples of the first validation batch, where it has any."""
        loader = self.splits.valid
        if loader is None or self.paths is None or type(self.task).samples is Task.samples:
            return
        set_mode(self.task, is_training=False)
        batch = {name: engine.asarray(values) for name, values in loader.batch(0, 0).items()}
        write_samples(self.task.samples(batch), self.paths, self._sink, step=self.progress.step, split="valid")

    def _evaluate(self, name: str, loader: Loader) -> dict[str, float]:
        with phase(name, self._sink, unit="batch") as running, loader.epoch(0) as batches:
            self._valid_program.prepare()
            self._valid_sums.reset()
            for done, batch in enumerate(batches, start=1):
                self.inbox.check()
                self._run_program(self._valid_program, "validation step", batch)
                running.progress(done, loader.steps_per_epoch)
            return self._valid_sums.values()

    # --- programs -------------------------------------------------------------------------------------------------

    def _run_program(self, program: Program, name: str, batch: Mapping[str, Any]) -> None:
        """Run a program on a batch; the first time, tell of tracing and compiling, which is no training time."""
        if program.has_run:
            program(batch)
            self._stopwatch.count(len(next(iter(batch.values()))))
            return
        with self._stopwatch.apart(), self._compile_phases.watching(name):
            program(batch)

    def _compiling(self, done: int, total: int, now: str) -> None:
        self._compile_phases.report(done, total, now)
        self.inbox.check()

    # --- requests, checkpoints, the end ---------------------------------------------------------------------------

    def _answer_requests(self) -> None:
        with self._stopwatch.apart():
            self.inbox.check()
            while (request := self.inbox.next("evaluate")) is not None:
                if reasons := self._validate():
                    self._save(*reasons)
                self._train_program.prepare()
                self.inbox.done(request)
            while (request := self.inbox.next("checkpoint")) is not None:
                self._save("requested")
                self.inbox.done(request)

    def _groups(self) -> dict[str, dict[str, engine.State]]:
        training = training_states(self.parts)
        training[self._random.counter.name] = self._random.counter
        return {"model": model_states(self.parts), "training": {**training, **self._train_sums.named_states()}}

    def _save(self, *reasons: str) -> None:
        if self._keeper is None:
            return
        self._refuse_not_finite()
        with phase("checkpoint", self._sink):
            state = self.progress.to_json(self.config, self.plan, self._train_sums.describe(), self.metrics)
            self._keeper.save(self.progress.step, self._groups(), state, reasons=reasons)
        self.progress.saved_step = self.progress.step

    def _resume(self, place: Path) -> None:
        folder = checkpoint_folder(place)
        with phase("resume", self._sink):
            checkpoint = read_checkpoint(folder)
            self.progress = Progress.from_json(checkpoint.state, self.config, self.plan, self._sink, where=str(folder))
            self.metrics.update({name: float(value) for name, value in checkpoint.state["metrics"].items()})
            self._train_sums.prepare(checkpoint.state["accumulators"])
            restore(checkpoint, self._groups(), where=str(folder))
        self._sink(ResumedEvent(self.progress.step, f"checkpoints/{folder.name}"))

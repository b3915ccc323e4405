"""The Learner: runs a task from its data to its end event.

    device → data → model → [resume] → train: before_step → step → after_step, until it is over → test → end

Everything between two steps is a hook (`trainer.learner.hooks`): logging, validation, checkpoints, guards.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trainer import TrainerError, engine
from trainer.datasets.loader import BadItem
from trainer.datasets.readers import Opening
from trainer.engine.sharding import check_divides
from trainer.learner.autotune import tuned
from trainer.learner.checkpoints import DISK, Disk
from trainer.learner.device import device_for
from trainer.learner.dry_run import DryRun, dry_run
from trainer.learner.hooks import Hook, hooks_for
from trainer.learner.inbox import Inbox, Stopped, TakeRequests
from trainer.learner.measuring import naming_items
from trainer.learner.optimizers.partition import Partition, partitioned
from trainer.learner.outcome import DONE, Outcome, outcome_of, tell_end
from trainer.learner.phases import Phase, phase
from trainer.learner.plan import DataSplits, Plan
from trainer.learner.progress import Progress
from trainer.learner.ranks import ALONE, Group
from trainer.learner.ranks.agreement import shards_for, what_must_agree
from trainer.learner.rate_trials import FoundRate, find_rate
from trainer.learner.task import Task, parts_of
from trainer.learner.training import Training
from trainer.learner.verdict import Verdict
from trainer.learner.weights import start_from
from trainer.rundir import BadItemEvent, Event, EventSink, LogEvent, Request, RunPaths, WarningEvent

if TYPE_CHECKING:
    from trainer.configs import AutotuneConfig, RunConfig
    from trainer.engine import Profile


def _no_requests() -> Sequence[Request]:
    return ()


def _no_sink(event: Event) -> None:
    del event


class Learner:
    """Trains a task.

        outcome = Learner(Digits, RunConfig(task="digits", optimizer={"name": "adam"}, train={"epochs": 2})).run()

    Args:
        task_class: creates the task from (config, options).
        config: config of the run. `model.normalization` is used unchanged; `trainer run` first sets it to that of
            `model.weights` with `weights.sources.settled`.
        paths: the run directory for checkpoints and tracebacks; None: none are written.
        sink: receives every event.
        requests: returns control requests; called once per step.
        attempt: the number of the attempt.
        resume: a run directory or a checkpoint to resume from.
        is_forced: resume even if the position in the data, the seed or the numerics class differ.
        hooks: hooks in addition to those of the config.
        wait: sleeps while paused.
        disk: writes the checkpoints; tests pass one that fails.
        group: the processes that train together; only rank 0 has `paths`, a sink and requests.
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
        is_forced: bool = False,
        hooks: Sequence[Hook] = (),
        wait: Callable[[float], None] = time.sleep,
        disk: Disk = DISK,
        group: Group = ALONE,
    ) -> None:
        self.group = group
        self.task = task_class(config, options)
        self.config, self.paths, self.attempt, self.resume = config, paths, attempt, resume
        self._is_forced = is_forced
        self.inbox = Inbox(requests, sink, wait=wait, group=group)
        self.training: Training | None = None
        self._sink, self._hooks, self._disk = sink, hooks, disk
        self._started = time.perf_counter()
        self._bad_records: Counter[str] = Counter()

    @property
    def progress(self) -> Progress:
        """The progress of the training."""
        return Progress() if self.training is None else self.training.progress

    @property
    def metrics(self) -> dict[str, float]:
        """The latest value of each metric, by "split/name"."""
        return {} if self.training is None else self.training.metrics

    def run(self) -> Outcome:
        """Trains until the end, a request or a failure, and emits the end event; `Outcome.check()` raises a failure.

        Raises:
            TrainerError: the end event can't be written to the run directory.
        """
        try:
            with self._on_device(self.config.autotune):
                outcome = self._run()
        except Exception as error:
            outcome = outcome_of(error, self.progress.step, self.metrics)
        seconds = time.perf_counter() - self._started
        tell_end(outcome, self._sink, seconds=seconds, paths=self.paths, attempt=self.attempt)
        return outcome

    def _run(self) -> Outcome:
        training = self._prepare()
        if self.resume is not None:
            training.keeping.is_forced = self._is_forced
            training.keeping.go_on_from(self.resume)
        try:
            with naming_items(training.splits):
                training.evaluator.check_metrics(training.splits)
                self._train(training)
                training.test()
                training.measuring.settle(wait=True)
            training.saving.finish()
            training.hooks("on_end", training)
        except Stopped as stop:
            training.keeping.save_stopped(stop)
            training.hooks("on_end", training)
            raise
        except Exception as error:
            training.hooks("on_error", training, error=error)
            raise
        finally:
            self._close(training)
        return Outcome("done", DONE, training.progress.step, training.metrics, training.progress.finished)

    def _close(self, training: Training) -> None:
        """Completes pending writes and ends threads and processes, however training ended."""
        self._tell_skipped(training)
        self.inbox.close()
        training.saving.close()
        training.hooks.close(training)
        training.measuring.close()
        _end_workers(training)

    def _train(self, training: Training) -> None:
        """Trains until the end; after a guard's verdict, continues from the checkpoint that it selects.

        Raises:
            TrainingFailure: the verdict selects none.
        """
        with phase("train", training.tell, unit="step") as running:
            verdict = training.hooks("on_start", training)
            while verdict is not None or not training.progress.is_over(training.plan):
                if verdict is None:
                    verdict = self._train_epoch(training, running)
                else:
                    training.keeping.answer(verdict)
                    verdict = training.hooks("on_start", training)

    def _train_epoch(self, training: Training, running: Phase) -> Verdict | None:
        """Trains to the end of the epoch, or to a verdict."""
        progress, plan = training.progress, training.plan
        epoch, first = progress.position(plan)
        training.prepare()
        with training.epoch(epoch, first) as batches, training.stopwatch.running():
            while progress.position(plan)[0] == epoch and not progress.is_over(plan):
                verdict = (
                    training.agreed(training.hooks("before_step", training))
                    or training.step(batches)
                    or training.agreed(training.hooks("after_step", training))
                )
                if verdict is not None:
                    return verdict
                running.progress(progress.step, plan.total_steps or None, f"epoch {epoch + 1}")
            return training.deferred.settle()

    # --- before training ------------------------------------------------------------------------------------------

    @contextmanager
    def _on_device(self, autotune: AutotuneConfig | None) -> Iterator[None]:
        """Inside this context, the config's device is used, with kernels tuned as `autotune` sets. The device's code is
        compiled on first use.
        """
        with ExitStack() as entered:
            with phase("device", self._sink):
                entered.enter_context(engine.device(device_for(self.config, self.group)))
                if autotune is not None:
                    entered.enter_context(tuned(autotune, self._sink, self.inbox.check))
            yield

    def _prepare(self) -> Training:
        """Loads the data and builds the model."""
        with phase("data", self._sink) as reading:
            self.task.opening = self._opening(reading)
            splits: DataSplits = self.task.data()
            for loader in splits.all():
                if loader.on_bad_item is None:
                    loader.on_bad_item = self._tell_bad_item
                if loader.tell is None:
                    loader.tell = self._warn
        _refuse_more_batches(self.config, splits)
        if (room := splits.train.room_for_objects) is not None:
            self._sink(LogEvent(f"batches have room for {room} objects per item (data.max_objects)"))
        plan = self.task.plan = Plan.for_config(self.config.train, splits)
        shards = shards_for(self.config, self.group)
        for loader in splits.all():
            check_divides(shards.count, loader.batch_size)
        if self.group.size > 1:
            self.group.require_same(what_must_agree(self.task, self.config, splits))
            for loader in splits.all():
                loader.take_rows(shards.rows(loader.batch_size))
        self.inbox.check()
        with phase("model", self._sink):
            is_divided = self.config.train.shard_optimizer
            with partitioned(Partition(self.group.rank, self.group.size) if is_divided else Partition()):
                self.task.build()
            if self.resume is None:  # a checkpoint would replace these weights
                for line in start_from(self.config.model, parts_of(self.task).modules, self.task.head):
                    self._sink(LogEvent(line))
            hooks = (*self.task.hooks(), *self._hooks) if self.group.is_first else ()
            training = Training(
                self.task, splits, plan, self.inbox, self._sink, paths=self.paths, hooks=hooks, disk=self._disk,
                shards=shards, group=self.group,
            )  # fmt: skip
        self.training = training
        self.inbox.check()
        return training

    def _opening(self, reading: Phase) -> Opening:
        """Reports reading progress as events; an invalid record is reported, then raised or skipped."""

        def on_progress(done: int, total: int) -> None:
            reading.progress(done, total or None)
            self.inbox.check()

        def on_problem(error: TrainerError) -> None:
            self._bad_records[error.message] += 1
            is_skipped = self.config.data.on_error == "skip"
            action: Literal["skipped", "raised"] = "skipped" if is_skipped else "raised"
            self._tell_bad_item(BadItem(error.where or "data", str(error), action, self._bad_records.total()))
            if not is_skipped:
                raise error

        return Opening(on_progress, on_problem, self._warn)

    def _warn(self, text: str) -> None:
        self._sink(WarningEvent(text))

    def _tell_bad_item(self, item: BadItem) -> None:
        self._sink(BadItemEvent(item.source, item.reason, item.action, item.count))

    def _tell_skipped(self, training: Training) -> None:
        """Warns with the number of skipped items and records by reason."""
        reasons = sum((loader.bad_items for loader in training.splits.all()), self._bad_records)
        if reasons and self.config.data.on_error == "skip":
            counted = ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
            self._sink(WarningEvent(f"{reasons.total()} skipped: {counted}", where="data"))

    def interrupt(self, signal_number: int) -> None:
        """Ends the training after the current step, with a checkpoint; callable from a signal handler."""
        self.inbox.interrupt(signal_number)

    # --- inspecting a step ----------------------------------------------------------------------------------------

    def autotune(self) -> None:
        """Measures the kernels of the training and validation steps now, and stores the decisions for later runs.

        Each decision is reported as an event. Steps run on the first batches; nothing is trained.
        """
        autotune = self.config.autotune.model_copy(update={"mode": "upfront"})
        with self._on_device(autotune):
            training = self._prepare()
            _end_workers(training)  # the first batch is created in this thread
            training.rehearse()

    def dry_run(self, *, seconds: float) -> DryRun:
        """Measures steps for at least this long, validations, samples and a checkpoint.

        Files are written to the run directory, which should be temporary. Custom hooks are not called.

        Raises:
            TrainerError: the run would fail.
        """
        with self._on_device(self.config.autotune):
            training = self._prepare()
            try:
                training.hooks.close(training)
                training.hooks = hooks_for(self.config.model_copy(update={"hooks": ()}), ())
                with naming_items(training.splits):
                    training.evaluator.check_metrics(training.splits)
                    return dry_run(training, seconds=seconds)
            finally:
                self._close(training)

    def find_rate(self, learning_rates: Sequence[float], **settings: Any) -> FoundRate:
        """Finds a learning rate by steps at each of `learning_rates` and short trainings; see `rate_trials.find_rate`.

        The learner's config should come from `range_test.for_range_test`. Nothing is written.

        Raises:
            TrainerError: the training would fail, or no learning rate can be suggested.
        """
        with self._on_device(self.config.autotune):
            training = self._prepare()
            try:
                with naming_items(training.splits):
                    return find_rate(training, learning_rates, **settings)
            finally:
                self._close(training)

    def profile(self, *, steps: int, warm_up: int) -> Profile:
        """Profiles training steps on the first batch; weights are updated as usual.

        Args:
            steps: number of measured steps.
            warm_up: number of steps before the measurement, at least 1: the first is traced and compiled.

        Raises:
            TrainerError: the config's device doesn't support profiling.
        """
        with self._on_device(None):
            training = self._prepare()
            _end_workers(training)
            training.prepare()
            batch = training.splits.train.batch(0, 0)
            training.step(repeat(batch))
            with phase("profile", self._sink):
                return engine.profile(training.traced_step(), batch, True, steps=steps, warm_up=warm_up - 1)


def _refuse_more_batches(config: RunConfig, splits: DataSplits) -> None:
    """Raises `TrainerError` if a task that makes its own loaders ignores `train.overfit_batches`."""
    most = config.train.overfit_batches
    if most is not None and splits.train.steps_per_epoch > most:
        raise TrainerError(
            "the task ignores train.overfit_batches",
            found=f"{splits.train.steps_per_epoch} batches per epoch",
            expected=f"at most {most}",
            hint="Make the loaders with `trainer.datasets.loaders(splits, self.config)`.",
        )


def _end_workers(training: Training) -> None:
    for loader in training.splits.all():
        loader.close()

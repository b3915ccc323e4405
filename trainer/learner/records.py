"""Records of a training: steps, validations, test, samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from trainer.engine import State
from trainer.learner.deferred_actions import Read
from trainer.learner.evaluating import Evaluator
from trainer.learner.measuring import AVERAGED, Measuring, Occasion
from trainer.learner.optimizers import learning_rates
from trainer.learner.plan import DataSplits, Plan
from trainer.learner.running import Runner
from trainer.learner.state import TrainingState
from trainer.learner.stopwatch import Reading
from trainer.learner.verdict import Verdict
from trainer.rundir import EventSink, MetricEvent, SystemEvent

if TYPE_CHECKING:
    from trainer.datasets import Loader

Guard = Callable[[Read], Verdict | None]
"""Returns the verdict on values before they are reported or saved."""


class Records:
    """Measures and reports.

    Args:
        notify: calls the hooks of a moment; further fields of the moment are passed by name.

    Attributes:
        reading: the speed of the steps before the last log record.
    """

    def __init__(
        self,
        state: TrainingState,
        splits: DataSplits,
        plan: Plan,
        *,
        measuring: Measuring,
        evaluator: Evaluator,
        run: Runner,
        guard: Guard,
        tell: EventSink,
        notify: Callable[..., Verdict | None],
    ) -> None:
        self._state, self._splits, self._plan = state, splits, plan
        self._measuring, self._evaluator, self._run = measuring, evaluator, run
        self._guard, self._tell, self._notify = guard, tell, notify
        self.reading: Reading | None = None

    @property
    def epoch(self) -> float:
        """Completed epochs, fractional."""
        return round(self._state.progress.step / self._plan.steps_per_epoch, 6)

    def log(self) -> Verdict | None:
        """Logs the training metrics since the last record, once the step is done, and resets them."""
        snapshot, occasion = self._state.snapshot(), self._occasion("train", self._splits.train)
        rates = learning_rates(self._state.parts.optimizers, self._state.progress.step)
        self._measuring.train.tally.reset()
        verdict = self._run.deferred.add(partial(self._log, snapshot, occasion, rates))
        return self._run.deferred.settle() if self._measuring.awaits("train") else verdict

    def _log(self, read: Read, occasion: Occasion, rates: Mapping[str, float]) -> Verdict | None:
        if (verdict := self._guard(read)) is not None:
            return verdict
        values = self._measuring.take(self._measuring.train, occasion, read)
        reading = self.reading = self._run.stopwatch.take(self._splits.train.data_wait)
        speed = {} if reading is None else {"samples_per_second": round(reading.samples_per_second, 3)}
        self._tell_metrics(occasion, {**values, **rates, **self._state.scaling(read), **speed})
        if reading is not None:
            waiting, lag = round(reading.data_wait, 4), self._measuring.lag
            self._tell(SystemEvent(data_wait=waiting, step_ms=round(reading.step_ms, 3), metric_lag=lag))
        return self._note("after_log", occasion, values)

    def validate(self, limit: int | None) -> Verdict | None:
        """Evaluates `limit` batches of the validation split, also with averaged weights if there are any.

        Does nothing if the guard has a verdict.
        """
        loader = self._splits.valid
        if loader is None:
            return None
        if (verdict := self._run.deferred.settle() or self._guard(State.numpy)) is not None:
            return verdict
        with self._run.stopwatch.paused():
            if (verdict := self._notify("before_validation")) is not None:
                return verdict
            values = self.evaluate(loader, "valid", limit=limit)
            self._state.progress.validated_step = self._state.progress.step
            occasion = self._occasion("valid", loader)
            self._tell_metrics(occasion, values)
            if self._measuring.waits_aside or self._state.progress.is_over(self._plan):
                self._measuring.settle(wait=True)  # the content of a checkpoint must not depend on elapsed time
            return self._note("after_validation", occasion, values)

    def test(self) -> None:
        """Evaluates the test splits with the current weights."""
        for split, loader in self._splits.tests().items():
            values = self.evaluate(loader, split, name="evaluate")
            self._state.metrics.update({f"{split}/{name}": value for name, value in values.items()})
            self._tell_metrics(self._occasion(split, loader), values, final=True)

    def evaluate(
        self, loader: Loader, split: str, *, name: str = "validate", limit: int | None = None
    ) -> dict[str, float]:
        """The metrics of a loader's batches (of the first `limit`), those of the averaged weights as "ema/name"."""
        occasion, ema = self._occasion(split, loader), self._state.ema
        values = self._evaluator(loader, occasion, name=name, limit=limit, finds_worst=ema is None)
        if ema is not None:
            with ema.in_place():
                averaged = replace(occasion, prefix=AVERAGED)
                values.update(self._evaluator(loader, averaged, name=name, limit=limit))
        return values

    def show_samples(self) -> None:
        """Writes the task's samples of the first validation batch, if it has any."""
        loader, ema = self._splits.valid, self._state.ema
        if loader is None or not self._evaluator.has_samples:
            return
        with self._run.stopwatch.paused(), ema.in_place() if ema is not None else nullcontext():
            self._evaluator.show_samples(loader, step=self._state.progress.step)

    def _occasion(self, split: str, loader: Loader) -> Occasion:
        names = tuple(getattr(loader.dataset, "class_names", ()))
        return Occasion(self._state.progress.step, self.epoch, split, names)

    def _tell_metrics(self, occasion: Occasion, values: Mapping[str, float], *, final: bool = False) -> None:
        self._tell(MetricEvent(occasion.step, occasion.epoch, occasion.split, dict(values), final))

    def _note(self, moment: str, occasion: Occasion, values: Mapping[str, float]) -> Verdict | None:
        measured = {f"{occasion.split}/{name}": value for name, value in values.items()}
        self._state.metrics.update(measured)
        return self._notify(moment, measured=measured, step=occasion.step, epoch=occasion.epoch)

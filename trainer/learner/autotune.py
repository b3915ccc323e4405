"""Runs the kernel tuner during a run, and reports its decisions and progress as events."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from trainer import engine
from trainer.learner.phases import Phase
from trainer.rundir import AutotuneEvent, EventSink, StepEvent

if TYPE_CHECKING:
    from trainer.configs import AutotuneConfig
    from trainer.engine.autotune.record import StepTime, TuneRecord


_is_evaluation: ContextVar[bool] = ContextVar("is_evaluation", default=False)


@contextmanager
def running_evaluation(is_evaluation: bool) -> Iterator[None]:
    """Marks steps in this context as evaluation (only sums of metrics change) or training (parameters change)."""
    token = _is_evaluation.set(is_evaluation)
    try:
        yield
    finally:
        _is_evaluation.reset(token)


@contextmanager
def tuned(config: AutotuneConfig, sink: EventSink, check: Callable[[], None]) -> Iterator[None]:
    """Tunes the kernels of programs traced inside this context, as `config` sets.

    Emits an `autotune` event for each decision, a `step` event with the times of a step's kernels, and the progress of
    measurements as the phase "autotune".

    Args:
        check: called while the run waits for decisions ("upfront"); its exceptions end the run.
    """
    phase = _AutotunePhase(sink)

    def on_record(record: TuneRecord) -> None:
        sink(AutotuneEvent(**dataclasses.asdict(record)))

    def on_step_time(time: StepTime) -> None:
        fields = dataclasses.asdict(time)
        sink(StepEvent(**{**fields, "updates": time.updates and not _is_evaluation.get()}))

    def on_progress(done: int, total: int, now: str) -> None:
        phase.progress(done, total, now)
        if config.mode == "upfront":
            check()

    tuner = engine.tuning(
        config.mode, share=config.share, on_record=on_record, on_progress=on_progress, on_step_time=on_step_time
    )
    with tuner:
        try:
            yield
        finally:
            phase.end()


class _AutotunePhase:
    """The phase "autotune", from the first measurement to the last decision; a new program starts it again."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._phase: Phase | None = None

    def progress(self, done: int, total: int, now: str) -> None:
        if self._phase is None:
            if done >= total:
                return
            self._phase = Phase("autotune", self._sink, unit="decision")
        self._phase.progress(done, total, now or None)
        if done >= total:
            self.end()

    def end(self) -> None:
        if self._phase is not None:
            self._phase.end()
            self._phase = None

"""Saves checkpoints as `checkpoint:` sets: which are kept, and how write errors are handled.

save: copy the state → a thread writes it → tell: hooks are called once it is complete
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from trainer import TrainerError
from trainer.learner.checkpoints import DISK, CheckpointKeeper, Copied, Disk, Keep
from trainer.learner.deferred_actions import DeferredActions, Read, Snapshot
from trainer.learner.phases import phase
from trainer.learner.progress import Progress
from trainer.learner.ranks import ALONE, Group
from trainer.learner.stopwatch import Stopwatch
from trainer.learner.verdict import Verdict
from trainer.rundir import EventSink, RunPaths, WarningEvent

if TYPE_CHECKING:
    from trainer.configs import CheckpointConfig
    from trainer.engine import State


class Saved(Protocol):
    """The state to save (`TrainingState`)."""

    progress: Progress
    metrics: dict[str, float]

    def groups(self) -> dict[str, dict[str, State]]:
        """All states, by checkpoint file."""

    def described(self, progress: Progress) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
        """The rest of the state at `progress`: for JSON, and arrays by file stem and name."""

    def states_elsewhere(self) -> set[str]:
        """The names of the training states that other processes keep."""

    def snapshot(self) -> Snapshot:
        """The values that the guard reads."""


class Saving:
    """Saves a training; does nothing without a run directory.

    A write error raises a TrainerError or gives a warning, as `checkpoint.on_error` sets. A thread writes, so the
    error appears in a later call.

    Args:
        deferred, stopwatch: those of the training step.
        guard: returns the verdict on the state before it is written.
        on_complete: called with the path of each completed checkpoint, relative to the run directory.
    """

    def __init__(
        self,
        saved: Saved,
        config: CheckpointConfig,
        paths: RunPaths | None,
        *,
        tell: EventSink,
        deferred: DeferredActions,
        stopwatch: Stopwatch,
        guard: Callable[[Read], Verdict | None],
        on_complete: Callable[[str], object],
        disk: Disk = DISK,
        group: Group = ALONE,
    ) -> None:
        self._group = group
        self._saved, self._config, self._event = saved, config, tell
        self._deferred, self._stopwatch, self._guard, self._on_complete = deferred, stopwatch, guard, on_complete
        self.keeper: CheckpointKeeper | None = None
        if paths is not None:
            self.keeper = CheckpointKeeper(paths.checkpoints, tell, what_is_kept(config), disk=disk)

    def save(self, *reasons: str, wait: bool = False) -> Verdict | None:
        """Copies the state and, once the step is done, writes it, unless the guard has a verdict. `wait`: returns
        after it is written.
        """
        if self.keeper is None:
            return None
        saved, started = self._saved, time.perf_counter()
        read = saved.snapshot()
        with self._stopwatch.paused(), phase("checkpoint", self._event):
            with self._as_configured():
                self.keeper.wait()
            elsewhere = dict(self._group.ask()) if saved.states_elsewhere() else {}
            copied = self.keeper.copy(saved.groups(), since=started)
        saved.progress.best_is_unsaved = False
        write = partial(self._write, copied, elsewhere, replace(saved.progress), reasons, self._watched(), read)
        verdict = self._deferred.add(write)
        if wait and verdict is None and (verdict := self._deferred.settle()) is None:
            self.finish()
        return verdict

    def _write(
        self,
        copied: Copied,
        elsewhere: Mapping[str, np.ndarray],
        progress: Progress,
        reasons: tuple[str, ...],
        watched: float | None,
        read: Read,
    ) -> Verdict | None:
        """Starts writing the copy of the state at `progress`, with the training states of other processes."""
        if (verdict := self._guard(read)) is not None:
            return verdict
        state, further = self._saved.described(progress)
        if elsewhere:
            further = {**further, "training": dict(elsewhere)}
        assert self.keeper is not None
        self.keeper.save(progress.step, copied, state, reasons=reasons, further=further, value=watched)
        self._saved.progress.note_saved(progress)
        return None

    def prepare(self) -> None:
        """Allocates memory for the copies of checkpoints."""
        if self.keeper is not None:
            self.keeper.prepare(self._saved.groups())

    def is_worth_one(self, value: float) -> bool:
        """Whether a checkpoint with this value of the monitored metric would be among the best ones to keep."""
        return self.keeper is not None and self.keeper.is_worth_saving(value, self._saved.progress.step)

    def tell(self) -> None:
        """Calls the hooks for checkpoints completed since the last call."""
        if self.keeper is None:
            return
        with self._as_configured():
            for event in self.keeper.finished():
                self._on_complete(event.path)

    def finish(self) -> None:
        """Waits until the current checkpoint is written, and reports it."""
        if self.keeper is not None:
            with self._stopwatch.paused(), self._as_configured():
                self.keeper.wait()
            self.tell()

    def best(self) -> Path | None:
        """The best checkpoint, if the config keeps it and one exists."""
        if self.keeper is None or self._config.best is None:
            return None
        self.finish()
        step = self.keeper.best_step
        return None if step is None else self.keeper.folder / f"step-{step}"

    def close(self) -> None:
        """Waits until the current checkpoint is complete, however training ended."""
        try:
            if self.keeper is not None:
                self.keeper.wait()
        except TrainerError as error:
            self._warn(error)

    def _watched(self) -> float | None:
        """The metric that selects the best checkpoints, if it was computed at this step."""
        best, progress = self._config.best, self._saved.progress
        is_measured = progress.validated_step == progress.step and not progress.micro_batch
        return self._saved.metrics.get(best.metric) if best is not None and is_measured else None

    @contextmanager
    def _as_configured(self) -> Iterator[None]:
        try:
            yield
        except TrainerError as error:
            if self._config.on_error == "stop":
                raise
            self._warn(error)

    def _warn(self, error: TrainerError) -> None:
        self._event(WarningEvent(f"A checkpoint was not written: {error}"))


def what_is_kept(config: CheckpointConfig) -> Keep:
    """The policy set by the config."""
    if config.best is None:
        return Keep(config.keep_last, every=config.keep_every)
    return Keep(config.keep_last, config.best.keep, config.best.mode, config.keep_every)

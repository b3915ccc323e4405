"""The checkpoints of a training as `checkpoint:` asks for them: which are kept, and what a failure does.

save: copy the state → a thread writes it → tell: hooks hear that it is complete
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.learner.checkpoints import DISK, CheckpointKeeper, Copied, Disk, Keep
from trainer.learner.late import Read
from trainer.learner.phases import phase
from trainer.learner.progress import Progress
from trainer.rundir import RunPaths, WarningEvent

if TYPE_CHECKING:
    from trainer.configs import CheckpointConfig
    from trainer.learner.training import Training


class Saving:
    """Saves a training; without a run directory it does nothing.

    What can't be written raises a TrainerError, or is told of, as `checkpoint.on_error` says; since a thread writes,
    that comes with a later call.
    """

    def __init__(self, training: Training, paths: RunPaths | None, disk: Disk = DISK) -> None:
        self._training, self._config = training, training.config.checkpoint
        self.keeper: CheckpointKeeper | None = None
        if paths is not None:
            keep = what_is_kept(self._config)
            self.keeper = CheckpointKeeper(paths.checkpoints, training.tell, keep, disk=disk)

    def save(self, *reasons: str, wait: bool = False) -> None:
        """Copy the state and, once the step is done, write it, unless something is not finite; `wait` until it is."""
        if self.keeper is None:
            return
        training, started = self._training, time.perf_counter()
        read = training.snapshot()
        with training.stopwatch.apart(), phase("checkpoint", training.tell):
            with self._told():
                self.keeper.wait()
            copied = self.keeper.copy(training.groups(), since=started)
        training.progress.best_is_unsaved = False
        training.late.add(partial(self._write, copied, replace(training.progress), reasons, self._watched(), read))
        if wait:
            training.late.settle()
            self.finish()

    def _write(
        self, copied: Copied, progress: Progress, reasons: tuple[str, ...], watched: float | None, read: Read
    ) -> None:
        """Begin to write what was copied at `progress`."""
        training = self._training
        training.refuse_not_finite(read)
        state, further = training.state(progress)
        assert self.keeper is not None
        self.keeper.save(progress.step, copied, state, reasons=reasons, further=further, value=watched)
        training.progress.note_saved(progress)

    def prepare(self) -> None:
        """Get memory for the copy that checkpoints are written from."""
        if self.keeper is not None:
            self.keeper.prepare(self._training.groups())

    def is_worth_one(self, value: float) -> bool:
        """Whether a checkpoint with this value of the watched metric would be among the best that are kept."""
        return self.keeper is not None and self.keeper.is_worth_saving(value, self._training.progress.step)

    def tell(self) -> None:
        """Let hooks hear of the checkpoints that were completed since the last time."""
        if self.keeper is None:
            return
        with self._told():
            for event in self.keeper.finished():
                self._training.hooks("after_checkpoint", self._training, checkpoint=event.path)

    def finish(self) -> None:
        """Wait until the checkpoint that is being written is complete, and tell of it."""
        if self.keeper is not None:
            with self._training.stopwatch.apart(), self._told():
                self.keeper.wait()
            self.tell()

    def best(self) -> Path | None:
        """The best checkpoint, where the config keeps it and there is one."""
        if self.keeper is None or self._config.best is None:
            return None
        self.finish()
        step = self.keeper.best_step
        return None if step is None else self.keeper.folder / f"step-{step}"

    def close(self) -> None:
        """However training ended: let the checkpoint that is being written be completed."""
        try:
            if self.keeper is not None:
                self.keeper.wait()
        except TrainerError as error:
            self._warn(error)

    def _watched(self) -> float | None:
        """The metric by which checkpoints are the best, where it was measured at this step."""
        best, progress = self._config.best, self._training.progress
        is_measured = progress.validated_step == progress.step and not progress.micro_batch
        return self._training.metrics.get(best.metric) if best is not None and is_measured else None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except TrainerError as error:
            if self._config.on_error == "stop":
                raise
            self._warn(error)

    def _warn(self, error: TrainerError) -> None:
        self._training.tell(WarningEvent(f"A checkpoint was not written: {error}"))


def what_is_kept(config: CheckpointConfig) -> Keep:
    """The config's policy."""
    if config.best is None:
        return Keep(config.keep_last, every=config.keep_every)
    return Keep(config.keep_last, config.best.keep, config.best.mode, config.keep_every)

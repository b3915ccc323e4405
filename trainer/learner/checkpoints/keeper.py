"""Writes checkpoints, updates the pointers to the latest and the best, deletes old ones, and finds one to resume
from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.learner.checkpoints.background import Background, processor_seconds
from trainer.learner.checkpoints.disk import DISK, Disk
from trainer.learner.checkpoints.format import (
    Array,
    Checkpoint,
    folder_name,
    point,
    pointed,
    read_checkpoint,
    remove_checkpoint,
    remove_leftovers,
    saved_at,
    steps_in,
    write_checkpoint,
)
from trainer.learner.checkpoints.policy import Keep, Saved, is_among_best, ranking, superseded
from trainer.learner.checkpoints.staging import Staging, StateGroups, bytes_of
from trainer.rundir import CheckpointEvent, EventSink, WarningEvent, write_error


@dataclass(frozen=True)
class Copied:
    """A copy of states, returned by `arrays` once complete, and the milliseconds that the loop waited for it."""

    arrays: Callable[[], dict[str, dict[str, Array]]]
    copy_ms: float
    stall_ms: float


class CheckpointKeeper:
    """Keeps the checkpoints of one run in `folder` (the run directory's `checkpoints/`).

    The loop waits while states are copied; a thread writes the copy. Only one is written at a time: a save waits for
    the previous one.
    """

    def __init__(self, folder: Path, sink: EventSink, keep: Keep, *, disk: Disk = DISK) -> None:
        self.folder, self.keep = folder, keep
        self._sink, self._disk = sink, disk
        self._staging, self._writer = Staging(), Background[CheckpointEvent | None]("checkpoint")
        if folder.is_dir():
            try:
                remove_leftovers(folder, disk=disk)
            except OSError as error:
                sink(WarningEvent(f"Leftovers of a killed attempt can't be deleted: {write_error(folder, error)}"))
        self._history = self._found()
        self._under_way: list[Saved] = []

    @property
    def best_step(self) -> int | None:
        """The step of the best saved checkpoint, or None."""
        return _step_of(pointed(self.folder, "best"))

    def is_worth_saving(self, value: float, step: int) -> bool:
        """Whether a checkpoint of `step` with this value would be among the best ones to keep.

        Checkpoints of later steps, from an attempt that got further, are ignored.
        """
        before = {saved for saved in (*self._history, *self._under_way) if saved.step < step}
        return is_among_best(value, before, self.keep)

    def prepare(self, groups: StateGroups) -> None:
        """Allocates the memory for a copy of these states, in the background."""
        size = bytes_of(groups)
        self._writer.start(lambda: self._staging.prepare(size))

    def went_on_from(self, folder: Path) -> None:
        """Restores the pointers and checkpoints to their state when the resumed checkpoint was saved.

        A process may have been killed after writing it, but before updating the pointers or deleting older checkpoints.

        Raises:
            TrainerError: a pointer can't be written.
        """
        if folder.parent.resolve() != self.folder.resolve():
            return
        self._settle(_step(folder.name))

    def copy(self, groups: StateGroups, *, since: float | None = None) -> Copied:
        """Copies the states for `save`.

        Args:
            since: `time.perf_counter()` when the loop started to wait; None: now.

        Raises:
            TrainerError: the previous checkpoint could not be written.
        """
        started = time.perf_counter() if since is None else since
        self._writer.wait()
        waited = time.perf_counter()
        arrays = self._staging.take(groups)
        copied = time.perf_counter()
        return Copied(arrays, round(1e3 * (copied - waited), 3), round(1e3 * (copied - started), 3))

    def save(
        self,
        step: int,
        copied: Copied,
        state: Mapping[str, Any],
        *,
        reasons: tuple[str, ...] = (),
        further: Mapping[str, Mapping[str, np.ndarray]] | None = None,
        value: float | None = None,
    ) -> None:
        """Starts writing the last copied states as the checkpoint of `step`.

        Args:
            further: arrays that are not states, by file stem and name.
            value: the monitored metric at this step, if computed.
        """
        own = {stem: {name: Array.of(values.copy()) for name, values in group.items()}
               for stem, group in (further or {}).items()}  # fmt: skip
        event = CheckpointEvent(
            step=step,
            path=f"checkpoints/{folder_name(step)}",
            copy_ms=copied.copy_ms,
            stall_ms=copied.stall_ms,
            reasons=("latest", *(reason for reason in reasons if reason != "latest")),
        )
        before = [saved for saved in self._history if saved.step < step]
        saved = Saved(step, max((one.number for one in before), default=0) + 1, value)
        self._under_way = [saved]

        def arrays() -> dict[str, dict[str, Array]]:
            states = copied.arrays()
            return {stem: {**states.get(stem, {}), **own.get(stem, {})} for stem in (*states, *own)}

        self._writer.start(lambda: self._write(event, saved, before, arrays(), state))

    def wait(self) -> None:
        """Waits until everything is written.

        Raises:
            TrainerError: a checkpoint could not be written.
        """
        self._writer.wait()

    def finished(self) -> list[CheckpointEvent]:
        """The checkpoints completed since the last call.

        Raises:
            TrainerError: one could not be written. Earlier ones are unchanged.
        """
        return [event for event in self._writer.finished() if event is not None]

    def _write(
        self,
        event: CheckpointEvent,
        saved: Saved,
        before: list[Saved],
        arrays: Mapping[str, Mapping[str, Array]],
        state: Mapping[str, Any],
    ) -> CheckpointEvent:
        """Runs in the writer's thread: writes the checkpoint, then the pointers, then deletes superseded checkpoints.

        Checkpoints of later steps, from an attempt that got further, are kept.
        """
        started, processor = time.perf_counter(), processor_seconds()
        step, disk = saved.step, self._disk
        try:
            _, size = write_checkpoint(
                self.folder, step, arrays, state, number=saved.number, value=saved.value, disk=disk
            )
        except TrainerError:
            self._history = self._found()  # the checkpoint may be complete although writing it failed
            raise
        later = [one for one in self._history if one.step > step]
        self._history = [*before, saved, *later]
        self._settle(step)
        complete = replace(
            event,
            bytes=size,
            write_s=round(time.perf_counter() - started, 6),
            cpu_s=round(processor_seconds() - processor, 6),
        )
        self._sink(complete)
        return complete

    def _found(self) -> list[Saved]:
        """The checkpoints in the folder, from their manifests."""
        found = (saved_at(self.folder / folder_name(step)) for step in steps_in(self.folder))
        return [saved for saved in found if saved is not None]

    def _settle(self, step: int) -> None:
        """Updates the pointers to the best and latest checkpoint up to `step`, and deletes superseded checkpoints.

        A failed deletion is repeated after the next save.
        """
        known = [saved for saved in self._history if saved.step <= step]
        best = [saved.step for saved in ranking(known, self.keep.mode)[:1]] if self.keep.best else []
        for name, steps in (("best", best), ("latest", [step])):
            named = pointed(self.folder, name)
            if steps and (named is None or named.name != folder_name(steps[0])):
                point(self.folder, name, steps[0], disk=self._disk)
        try:
            for step in superseded(known, self.keep):
                remove_checkpoint(self.folder, step, disk=self._disk)
                self._history = [one for one in self._history if one.step != step]
        except OSError as error:
            failed = write_error(self.folder / folder_name(step), error)
            self._sink(WarningEvent(f"An old checkpoint was not deleted: {failed}"))


def checkpoint_folder(place: Path) -> Path:
    """The checkpoint at `place`: itself, the target of `checkpoints/best` or `latest`, or the latest one of a run
    directory or its `checkpoints/`.

    Raises:
        TrainerError: no checkpoint there.
    """
    if (place / "manifest.json").exists():
        return place
    named = pointed(place.parent, place.name)
    if named is not None:
        if not (named / "manifest.json").exists():
            raise TrainerError(
                "no complete checkpoint", where=str(named), expected=f"the checkpoint that {place} points to"
            )
        return named
    for folder in (place / "checkpoints", place):
        latest = pointed(folder, "latest")
        if latest is not None and (latest / "manifest.json").exists():
            return latest
        if steps := steps_in(folder):
            return folder / folder_name(steps[-1])
    raise TrainerError(
        "no checkpoint to resume from", where=str(place), expected="a run directory with a checkpoint, or a checkpoint"
    )


def read_newest(place: Path, warn: Callable[[str], None]) -> tuple[Path, Checkpoint]:
    """Reads the checkpoint at `place` (see `checkpoint_folder`) and checks its hashes.

    If the newest one of a run is damaged or incomplete, the previous one is used and `warn` receives the reason.

    Raises:
        TrainerError: there is no checkpoint, or all are damaged; the message is about the newest.
    """
    newest = checkpoint_folder(place)
    if newest == place:
        return place, read_checkpoint(place)
    candidates = [folder_name(step) for step in reversed(steps_in(newest.parent)) if folder_name(step) != newest.name]
    older = [name for name in candidates if _step(name) < _step(newest.name)]
    if (named := pointed(newest.parent, "latest")) is not None and named != newest:
        warn(f"{named / 'manifest.json'}: incomplete checkpoint. The run resumes from {newest.name}.")
    first: TrainerError | None = None
    for name in (newest.name, *older):
        try:
            return newest.parent / name, read_checkpoint(newest.parent / name)
        except TrainerError as error:
            first = first or error
            warn(f"{error} The run resumes from the previous undamaged checkpoint, if there is one.")
    assert first is not None
    raise first


def checkpoints_at(place: Path) -> list[Path]:
    """All checkpoints at `place`: itself, the one it points to, or those of a run directory or its `checkpoints/`, by
    step.

    Raises:
        TrainerError: no checkpoint there.
    """
    newest = checkpoint_folder(place)
    is_one = newest == place or place.is_file()
    return [newest] if is_one else [newest.parent / folder_name(step) for step in steps_in(newest.parent)]


def restore(checkpoint: Checkpoint, groups: StateGroups, *, where: str) -> None:
    """Loads every state from the checkpoint.

    Raises:
        TrainerError: names, shapes or dtypes differ. Nothing is changed then.
    """
    problems = []
    for stem, group in groups.items():
        arrays = checkpoint.arrays.get(stem, {})
        problems += [f"{name}: not in the checkpoint" for name in group if name not in arrays]
        problems += [f"{name}: not in the model" for name in arrays if name not in group]
        problems += [
            f"{name}: {arrays[name].dtype} {arrays[name].values.shape} where the model has {state.dtype} {state.shape}"
            for name, state in group.items()
            if name in arrays and (arrays[name].values.shape != state.shape or arrays[name].dtype != state.dtype)
        ]
    if problems:
        shown = problems[:20] + ([f"and {len(problems) - 20} more"] if len(problems) > 20 else [])
        raise TrainerError("the checkpoint belongs to another model", where=where, found="\n            ".join(shown))
    for stem, group in groups.items():
        for name, state in group.items():
            state.set_value(checkpoint.arrays[stem][name].widened())


def _step(name: str) -> int:
    return int(name.removeprefix("step-"))


def _step_of(folder: Path | None) -> int | None:
    return _step(folder.name) if folder is not None and (folder / "manifest.json").exists() else None

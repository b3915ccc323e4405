"""Writing checkpoints, naming the latest and the best, deleting the old, and finding one to resume from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import State
from trainer.learner.checkpoints.format import (
    Array,
    Checkpoint,
    folder_name,
    point,
    pointed,
    remove_checkpoint,
    remove_leftovers,
    steps_in,
    write_checkpoint,
)
from trainer.learner.checkpoints.policy import superseded
from trainer.rundir import CheckpointEvent, EventSink

StateGroups = Mapping[str, Mapping[str, State]]
"""By file stem, states by name."""


class CheckpointKeeper:
    """Keeps the checkpoints of one run in `folder` (the run directory's `checkpoints/`)."""

    def __init__(self, folder: Path, sink: EventSink, *, keep_last: int) -> None:
        self.folder, self._sink, self._keep_last = folder, sink, keep_last
        self.best_step = _step_of(pointed(folder, "best"))
        if folder.is_dir():
            remove_leftovers(folder)

    def save(
        self,
        step: int,
        groups: StateGroups,
        state: Mapping[str, Any],
        *,
        reasons: tuple[str, ...] = (),
        further: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    ) -> Path:
        """Write the states as the checkpoint of `step`, the latest (or also the best); delete old ones.

        `further` are arrays that are no states, by file stem and name.
        """
        started = time.perf_counter()
        arrays = {
            stem: {name: Array(state.storage.view().copy(), state.dtype) for name, state in group.items()}
            for stem, group in groups.items()
        }
        for stem, group in (further or {}).items():
            arrays[stem] = {name: Array.of(values) for name, values in group.items()}
        copied = time.perf_counter()
        path, size = write_checkpoint(self.folder, step, arrays, state)
        point(self.folder, "latest", step)
        if "best" in reasons:
            point(self.folder, "best", step)
            self.best_step = step
        protected = {step} if self.best_step is None else {step, self.best_step}
        for old in superseded((known for known in steps_in(self.folder) if known <= step), self._keep_last, protected):
            remove_checkpoint(self.folder, old)
        self._sink(
            CheckpointEvent(
                step=step,
                path=f"checkpoints/{path.name}",
                bytes=size,
                copy_ms=round(1e3 * (copied - started), 3),
                write_s=round(time.perf_counter() - copied, 6),
                reasons=("latest", *(reason for reason in reasons if reason != "latest")),
            )
        )
        return path


def checkpoint_folder(place: Path) -> Path:
    """The checkpoint that `place` means: itself, or the latest of a run directory or its `checkpoints/`.

    Raises:
        TrainerError: there is none.
    """
    if (place / "manifest.json").exists():
        return place
    for folder in (place / "checkpoints", place):
        latest = pointed(folder, "latest")
        if latest is not None and (latest / "manifest.json").exists():
            return latest
        if steps := steps_in(folder):
            return folder / folder_name(steps[-1])
    raise TrainerError(
        "no checkpoint to resume from", where=str(place), expected="a run directory with a checkpoint, or a checkpoint"
    )


def checkpoints_at(place: Path) -> list[Path]:
    """All checkpoints that `place` means: itself, or those of a run directory or its `checkpoints/`, by step.

    Raises:
        TrainerError: there is none.
    """
    newest = checkpoint_folder(place)
    return [newest] if newest == place else [newest.parent / folder_name(step) for step in steps_in(newest.parent)]


def restore(checkpoint: Checkpoint, groups: StateGroups, *, where: str) -> None:
    """Give every state its value from the checkpoint.

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
        raise TrainerError("this checkpoint belongs to another model", where=where, found="\n            ".join(shown))
    for stem, group in groups.items():
        for name, state in group.items():
            state.set_value(checkpoint.arrays[stem][name].widened())


def _step_of(folder: Path | None) -> int | None:
    return (
        int(folder.name.removeprefix("step-")) if folder is not None and (folder / "manifest.json").exists() else None
    )

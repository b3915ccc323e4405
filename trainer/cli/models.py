"""`trainer.load_model(...)`: the model of a run or an exported file, ready to predict.

    checkpoint of the run → its config → the task, built without its data → weights → Model

Nothing is written; the run is not changed.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError, configs
from trainer.cli.find import find_run

if TYPE_CHECKING:
    from trainer.learner import Task
    from trainer.learner.inference.model import Model
    from trainer.rundir import RunPaths

BEST, LATEST = "best", "latest"

TABLE = "confusion_matrix"


def load_model(
    path: str | os.PathLike[str], weights: str = BEST, *, device: str | None = None, threads: int | None = None
) -> Model:
    """Loads the model of a run, or of a file written by `trainer export`.

        model = trainer.load_model("runs/cells")
        result = model.predict("photo.jpg")

    Args:
        path: a run directory, or its name below `runs/`, or a checkpoint, or an exported file, which may be untrusted.
        weights: for a run: "best" (by the metric of `checkpoint.best`; the latest without one), "latest", or a
            checkpoint's name, such as "step-300".
        device, threads: replace the config's values.

    Averaged weights are used if the metric belongs to averaged weights (`ema/…`), or if no metric is set and the run
    averages.

    Raises:
        TrainerError: no such run or weights, or the checkpoint, the config or the task can't be used.
    """
    if is_exported(Path(path)):
        from trainer.learner.exported.model import model_in

        if weights != BEST:
            raise TrainerError("an exported model has only one set of weights", where=os.fspath(path), found=weights)
        try:
            return model_in(Path(path), device=device, threads=threads)
        except TrainerError as error:
            error.hint = error.hint or "A model is a run, a checkpoint, or a file that `trainer export` wrote."
            raise
    from trainer.cli.remote.record import as_here
    from trainer.learner.inference.loading import model_from
    from trainer.rundir import RunPaths

    folder, chosen = checkpoint_of(path, weights)
    state = _state(folder)
    state["config"] = as_here(RunPaths(folder.parent.parent), state["config"])
    overrides: dict[str, Any] = {}
    if device is not None:
        overrides["device"] = device
    if threads is not None:
        overrides["threads"] = threads
    config = _with_class_table({key: value for key, value in state["config"].items() if value is not None})
    loaded = configs.load(config, overrides)

    def make_task(data: Path | None) -> Task:
        return _task(loaded if data is None else _with_data(config, overrides, loaded, data))

    return model_from(folder, state, make_task, config=loaded.config, weights=chosen)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Inside this context, prints warnings to standard error in the same form as other commands."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *place, **further: print(f"warning: {message}", file=sys.stderr)
        yield


def is_exported(path: Path) -> bool:
    """Whether the file is an exported model: neither a run nor a checkpoint, which are folders, nor a run's file that
    points to a checkpoint.
    """
    return path.is_file() and path.parent.name != "checkpoints"


def checkpoint_of(path: str | os.PathLike[str], weights: str = BEST) -> tuple[Path, str]:
    """The checkpoint folder selected by a run's `weights` or a checkpoint's path, and its name for display.

    Raises:
        TrainerError: no such checkpoint.
    """
    from trainer.learner.checkpoints import checkpoint_folder, pointed, steps_in

    place = Path(path)
    if (place / "manifest.json").exists() or (place.parent.name == "checkpoints" and place.is_file()):
        folder = checkpoint_folder(place)
        return folder, folder.name
    paths = find_run(os.fspath(path))
    if weights in (BEST, LATEST):
        best = pointed(paths.checkpoints, BEST) if weights == BEST else None
        if best is not None:
            return checkpoint_folder(best), f"{best.name}, the best"
        folder = _latest(paths)
        return folder, f"{folder.name}, the latest"
    if Path(weights).name != weights or not (paths.checkpoints / weights / "manifest.json").exists():
        there = ", ".join(f"step-{step}" for step in steps_in(paths.checkpoints))
        raise TrainerError(
            "no such weights", where=str(paths.root), found=weights, expected=f"best, latest, {there}".rstrip(", ")
        )
    return paths.checkpoints / weights, weights


def _latest(paths: RunPaths) -> Path:
    from trainer.learner.checkpoints import checkpoint_folder, steps_in

    if not steps_in(paths.checkpoints):
        raise TrainerError(
            "the run has no checkpoint yet, so there are no weights", where=str(paths.root),
            hint="The run writes a checkpoint when it stops, at the latest.",
        )  # fmt: skip
    return checkpoint_folder(paths.root)


def _state(folder: Path) -> dict[str, Any]:
    from trainer.learner.checkpoints import read_state

    state = read_state(folder)
    if not isinstance(state.get("config"), dict) or not isinstance(state.get("facts"), dict):
        raise TrainerError(
            "the checkpoint doesn't describe its model", where=str(folder),
            expected="a checkpoint written by this version of trainer",
            hint="Resume the run for one step: the next checkpoint will describe it.",
        )  # fmt: skip
    return state


def _with_class_table(config: dict[str, Any]) -> dict[str, Any]:
    """The config with a confusion matrix added next to accuracy, so that an evaluation reports every class."""
    metrics = dict(config["metrics"])
    for split in ("valid", "test"):
        names = [one["name"] for one in metrics.get(split) or ()]
        if "accuracy" in names and TABLE not in names:
            metrics[split] = [*metrics[split], {"name": TABLE}]
    return {**config, "metrics": metrics}


def _with_data(
    config: Mapping[str, Any], overrides: Mapping[str, Any], loaded: configs.Loaded, folder: Path
) -> configs.Loaded:
    """The config with another data set: with the run's reader if it fits the folder, otherwise with a detected
    layout.
    """
    from trainer.datasets.readers import detecting, has_files

    if not folder.is_dir():
        raise TrainerError("no such data folder", where=str(folder))
    reader = loaded.config.data.reader
    changed: dict[str, Any] = dict(config["data"])
    if reader is not None and not has_files(reader, folder):
        changed["reader"] = detecting(changed["reader"])
    changed["root"] = str(folder.absolute())
    return configs.load({**config, "data": changed}, overrides)


def _task(loaded: configs.Loaded) -> Task:
    from trainer.cli.tasks import task_class

    return task_class(loaded.task)(loaded.config, loaded.options)

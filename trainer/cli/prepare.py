"""Creates or opens the run directory of an order and writes its resolved config."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer import TrainerError, configs
from trainer.cli.attempt import Attempt
from trainer.cli.file_checks import Surroundings
from trainer.cli.find import RUNS, find_run
from trainer.cli.order import Order, targets_of
from trainer.configs.foreign import KEYS
from trainer.configs.overrides import Overrides
from trainer.rundir import (
    RunLock,
    RunPaths,
    create_run,
    create_run_at,
    process_age,
    run_name,
    take_up_run,
    write_error,
    write_text,
)

AUTO = "auto"
"""The value of --resume that resumes the run if it exists and starts it otherwise."""
CHECKPOINTS = "checkpoints"
"""The folder of a run with the checkpoints that --resume can name."""
LOCKED_FILES = ("config-*.yaml", "environment-*.json")
"""Patterns of the files that an attempt replaces while it owns the run's lock."""


def prepare(order: Order) -> tuple[Attempt, configs.Loaded]:
    """Reads and checks the config, creates the directory (or opens the one to resume), writes the resolved config.

    Raises:
        TrainerError: the arguments, the config or the directory are invalid.
    """
    target, overrides = split_words(order.words, resuming=order.resume not in (None, AUTO))
    started = time.time() - process_age(order.pid) if order.started is None else order.started
    return attempt_of(order, target, overrides, process_start=started)


def attempt_of(
    order: Order, target: str | Mapping[str, Any] | None, overrides: Overrides, *, process_start: float
) -> tuple[Attempt, configs.Loaded]:
    """As `prepare`, for a config and overrides that are already separated; the order's own words are ignored.

    Raises:
        TrainerError: the config or the directory are invalid.
    """
    loaded: configs.Loaded | None = None
    checkpoint: Path | None = None
    if order.resume not in (None, AUTO):
        paths, checkpoint = _resumable(order)
    else:
        assert target is not None
        surroundings = Surroundings()
        rules = [] if order.on else [surroundings.problems]  # with --on, paths belong to the other machine
        loaded = configs.load(target, overrides, rules=rules)
        if surroundings.is_detected:
            print(surroundings.line, file=sys.stderr, flush=True)
        if order.resume == AUTO:
            paths = _named_run(order, loaded.config.name)
            loaded = loaded if order.on else _with_batch_size(loaded, paths)
        else:
            loaded = loaded if order.on else _with_batch_size(loaded)
            name = order.name or loaded.config.name or default_name(loaded.task)
            paths = create_run_at(order.run_dir) if order.run_dir else create_run(RUNS, name)
    lock = RunLock(paths, notice=lambda text: print(text, file=sys.stderr, flush=True))
    lock.acquire()  # before attempts are counted: if two start at once, one is refused and leaves no files
    try:
        _remove_leftovers(paths)
        last = paths.last_attempt
        _refuse_unfinished(paths)
        if loaded is None:
            if last == 0:
                raise TrainerError("this run has no config to resume", where=str(paths.root))
            loaded = _with_batch_size(configs.load(str(paths.config(last).absolute()), overrides), paths)
        if last > 0 and (overrides or order.resume == AUTO):
            before = configs.load_resolved(paths.config(last)).config
            model = loaded.config.model.with_records_of(before.model)
            loaded = loaded.with_section("model", model, str(paths.config(last)))
            _refuse_another_meaning(order, paths, before, loaded)
        write_config(paths, last + 1, loaded)
        circumstances = {"command": order.command, "directory": os.getcwd(), "started": process_start}
        write_text(paths.environment(last + 1), json.dumps(circumstances, indent=1) + "\n")
    except BaseException:
        lock.release()
        raise
    return Attempt(paths, last + 1, process_start, order.debug, checkpoint, order.force, lock), loaded


def split_words(words: Sequence[str], *, resuming: bool) -> tuple[str | None, list[str]]:
    """The config or recipe, and the overrides, from the arguments of a command line.

    Raises:
        TrainerError: no config, more than one, or one together with `--resume`.
    """
    targets = targets_of(words)
    overrides = [word for word in words if word not in targets]
    if resuming and targets:
        raise TrainerError(
            "a resumed run keeps its config", found=targets[0], expected="only key=value together with --resume"
        )
    if not resuming and not targets:
        raise TrainerError(
            "no config given", expected="a YAML file or a recipe's name", hint="`trainer list` shows the recipes."
        )
    if len(targets) > 1 and (foreign := next((word for word in targets if word in KEYS), None)):
        raise TrainerError(f"{foreign} is neither a config nor key=value", hint=f"The equivalent is {KEYS[foreign]}.")
    if len(targets) > 1:
        raise TrainerError(
            "more than one config", found=" ".join(targets), expected="one config, followed by key=value"
        )
    return (targets[0] if targets else None), overrides


def default_name(task: configs.TaskReference) -> str:
    """The default name of a run of the task."""
    return task.recipe or (task.class_name or task.folder.name).lower()


def _resumable(order: Order) -> tuple[RunPaths, Path | None]:
    """The run to resume, and its checkpoint if one is named."""
    if order.run_dir or order.name:
        raise TrainerError("a resumed run keeps its directory and name", hint="Remove --run-dir and --name.")
    assert order.resume is not None
    named = Path(order.resume)
    names_checkpoint = named.parent.name == CHECKPOINTS
    paths = find_run(str(named.parent.parent) if names_checkpoint else order.resume)
    checkpoint = paths.checkpoints / named.name if names_checkpoint else None
    if checkpoint is not None and not checkpoint.is_dir():
        known = sorted(path.name for path in paths.checkpoints.glob("step-*"))
        raise TrainerError(
            "no such checkpoint", where=str(checkpoint), expected=", ".join(known) or "a checkpoint of the run"
        )
    return paths, checkpoint


def _named_run(order: Order, name: str | None) -> RunPaths:
    """The directory in which a run is started or resumed."""
    if order.run_dir:
        return take_up_run(order.run_dir)
    if (name := order.name or name) is None:
        raise TrainerError(
            "--resume auto finds the run by its name, but no name is set",
            expected="`name:` in the config, --name or --run-dir",
        )
    return take_up_run(Path(RUNS) / run_name(name))


def _remove_leftovers(paths: RunPaths) -> None:
    """Deletes incomplete files of an earlier attempt that was killed. Only the owner of the lock writes such files.

    Raises:
        TrainerError: a file can't be deleted.
    """
    for file in (each for kept in LOCKED_FILES for each in paths.root.glob(f".{kept}.*")):
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise write_error(file, error) from error


def write_config(paths: RunPaths, attempt: int, loaded: configs.Loaded) -> None:
    """Writes the resolved config of an attempt to the run directory.

    Raises:
        TrainerError: it can't be written.
    """
    write_text(paths.config(attempt), configs.dump_resolved(loaded))


def _with_batch_size(loaded: configs.Loaded, paths: RunPaths | None = None) -> configs.Loaded:
    """The config with a numeric batch size; an existing run keeps that of its last attempt."""
    if loaded.config.data.batch_size != "auto":
        return loaded
    from trainer.cli.batch_size import with_batch_size  # takes time to import

    last = 0 if paths is None else paths.last_attempt
    if paths is None or not last:
        return with_batch_size(loaded)
    earlier = configs.load_resolved(paths.config(last)).config.data.items_per_batch
    return with_batch_size(loaded, earlier)


def is_elsewhere(order: Order) -> bool:
    """Whether the run trains on another machine: the order names one, or resumes a run that still trains there."""
    if order.on is not None or order.resume is None:
        return order.on is not None
    named = [Path(folder) for folder in (order.resume, order.run_dir) if folder]
    if not any(any(root.glob("remote-*.json")) for root in (*named, *Path(RUNS).glob("*"))):
        return False  # saves the import
    from trainer.cli.remote.relay import unfinished_run

    return unfinished_run(order) is not None


def _refuse_unfinished(paths: RunPaths) -> None:
    """Refuses to train a run that still trains on another machine."""
    if not any(paths.root.glob("remote-*.json")):
        return  # saves the import
    from trainer.cli.remote.record import how_to_continue

    if (text := how_to_continue(paths)) is not None:
        raise TrainerError("this run still trains, or its results have not arrived", where=str(paths.root), hint=text)


def _refuse_another_meaning(order: Order, paths: RunPaths, before: configs.RunConfig, loaded: configs.Loaded) -> None:
    """Refuses changed values that contradict the saved state of the run, unless --force is given."""
    if order.force:
        return
    found = [change for change in configs.changes(before, loaded.config) if change.effect is not None]
    if found:
        shown = [str(change) for change in found[:12]] + ([f"and {len(found) - 12} more"] if len(found) > 12 else [])
        raise TrainerError(
            "these values contradict the saved state of the run", where=str(paths.root),
            found="\n            ".join(shown), expected="the values that it was trained with",
            hint="Start a new run with model.weights set to this run, or resume anyway with --force.",
        )  # fmt: skip

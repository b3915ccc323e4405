"""Paths in a run directory, and creating and finding run directories."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from trainer import TrainerError
from trainer.rundir.files import write_error

_NAME = re.compile(r"[^\W_][\w.,=+@-]{0,199}")
_CONFIG = re.compile(r"config-(\d+)\.yaml")

_BEST = re.compile(
    r"^checkpoint:\n(?:  .*\n)*?  best:\n(?:    .*\n)*?    metric: (\S+)(?:.*\n(?:    .*\n)*?    mode: (max|min))?",
    re.MULTILINE,
)
"""Matches `checkpoint.best` in a resolved configuration, whose form is fixed: parsing YAML takes 100 times as long."""


@dataclass(frozen=True)
class RunPaths:
    """The files of one run; `root` is the run directory."""

    root: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(self.root))

    @property
    def name(self) -> str:
        return self.root.resolve().name

    @property
    def leading_metric(self) -> str | None:
        """The monitored metric, `checkpoint.best.metric` as "split/name"; None if the config sets none."""
        return self._monitored[0]

    @property
    def monitored_mode(self) -> str | None:
        """Which end of the monitored metric is better, max or min; None if the config sets none."""
        return self._monitored[1]

    @property
    def _monitored(self) -> tuple[str | None, str | None]:
        try:
            found = _BEST.search(self.config(max(self.last_attempt, 1)).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return None, None
        return (found[1].strip('"'), found[2]) if found else (None, None)

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def log(self) -> Path:
        return self.root / "log.txt"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def samples(self) -> Path:
        return self.root / "samples"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def lock(self) -> Path:
        return self.root / "run.lock"

    @property
    def control(self) -> Path:
        return self.root / "control"

    @property
    def tags(self) -> Path:
        return self.root / "tags.json"

    @property
    def note(self) -> Path:
        return self.root / "note.txt"

    def config(self, attempt: int) -> Path:
        return self.root / f"config-{attempt}.yaml"

    def environment(self, attempt: int) -> Path:
        return self.root / f"environment-{attempt}.json"

    def traceback(self, attempt: int) -> Path:
        return self.root / f"traceback-{attempt}.txt"

    def pointed(self, name: str) -> Path | None:
        """The checkpoint that `checkpoints/latest` or `checkpoints/best` names, or None."""
        try:
            folder = self.checkpoints / (self.checkpoints / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return folder if (folder / "manifest.json").is_file() and folder.parent == self.checkpoints else None

    def inside(self, file: str) -> Path | None:
        """The file of an event, if it exists inside the run directory."""
        root = self.root.resolve()
        path = (root / file).resolve()
        return path if path.is_relative_to(root) and path.is_file() else None

    @property
    def last_attempt(self) -> int:
        """The last attempt with a config here; 0 if there is none."""
        return max((int(match[1]) for name in os.listdir(self.root) if (match := _CONFIG.fullmatch(name))), default=0)


def make_folders(folder: Path, root: Path) -> None:
    """Creates a folder in a run directory, with its parents. A deleted or moved run directory is not created again.

    Raises:
        OSError: it can't be created, or `root` doesn't exist.
    """
    os.stat(root)
    folder.mkdir(parents=True, exist_ok=True)


def gone(root: Path) -> TrainerError | None:
    """The error for a run whose directory was deleted or moved during training; None if it exists."""
    if root.is_dir():
        return None
    return TrainerError(
        "the run directory no longer exists",
        where=str(root),
        expected="a directory that is not deleted or moved during training",
        hint="It was deleted or moved. No new one was created; a moved one contains everything saved so far.",
    )


def create_run(runs_root: str | os.PathLike[str], name: str) -> RunPaths:
    """A new run directory `runs_root/name`, or `name-2`, `name-3`, … if the name is in use.

    Raises:
        TrainerError: the name is not a valid folder name, or the directory can't be created.
    """
    run_name(name)
    root = Path(runs_root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            path = root / (name if number == 1 else f"{name}-{number}")
            try:
                path.mkdir()
                break
            except FileExistsError:
                number += 1
        return _with_folders(path)
    except OSError as error:
        raise write_error(error.filename or root, error) from error


def run_name(name: str) -> str:
    """The name, if it is valid for a run.

    Raises:
        TrainerError: it is invalid.
    """
    if not _NAME.fullmatch(name):
        raise TrainerError(
            "invalid name of a run",
            found=repr(name),
            expected="letters, digits and . , = + @ _ -, starting with a letter or digit",
        )
    return name


def task_name(task: str) -> str:
    """The name of a task in headers and tables: that of its recipe, or the class of `…/task.py:Class`."""
    file, separator, name = task.rpartition(":")
    return name if separator and file.endswith(".py") else task


def create_run_at(path: str | os.PathLike[str]) -> RunPaths:
    """Creates a run in exactly this directory, which must be new or empty.

    Raises:
        TrainerError: it is not empty, or can't be created.
    """
    root = Path(path)
    try:
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise TrainerError("the run directory is not empty", where=str(root), hint="To resume a run, use --resume.")
        return _with_folders(root)
    except OSError as error:
        raise write_error(error.filename or root, error) from error


def take_up_run(path: str | os.PathLike[str]) -> RunPaths:
    """The run in exactly this directory, or a new one, also if its creation was interrupted.

    Raises:
        TrainerError: it contains other files, or can't be created.
    """
    paths = RunPaths(Path(path))
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        if paths.last_attempt:
            return paths
        ours = {folder.name for folder in _folders(paths)}
        others = [entry.name for entry in paths.root.iterdir() if not _is_left_by_a_start(entry, ours)]
        if others:
            raise TrainerError(
                "the directory is not empty and contains no run", where=str(paths.root),
                found=", ".join(sorted(others)[:8]), expected="a run, or a new or empty directory",
            )  # fmt: skip
        return _with_folders(paths.root)
    except OSError as error:
        raise write_error(error.filename or paths.root, error) from error


def _is_left_by_a_start(entry: Path, folders: set[str]) -> bool:
    """Whether the entry was left by a process that was killed before it wrote its config."""
    if entry.name in folders:
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name.startswith(".config-1.yaml.")


def _folders(paths: RunPaths) -> tuple[Path, ...]:
    return paths.control, paths.checkpoints, paths.samples, paths.reports


def _with_folders(path: Path) -> RunPaths:
    paths = RunPaths(path)
    for folder in _folders(paths):
        folder.mkdir(exist_ok=True)
    return paths


def list_runs(runs_root: str | os.PathLike[str]) -> list[RunPaths]:
    """The runs in a folder, the last started one last; empty if the folder doesn't exist."""
    started = []
    try:
        entries = list(os.scandir(runs_root))
    except (FileNotFoundError, NotADirectoryError):
        return []
    for entry in entries:
        if entry.is_dir() and (when := _started(RunPaths(Path(entry.path)))) is not None:
            started.append((when, entry.path))
    return [RunPaths(Path(path)) for _, path in sorted(started)]


def latest_run(runs_root: str | os.PathLike[str]) -> RunPaths | None:
    """The run that was started (or resumed) last, or None."""
    runs = list_runs(runs_root)
    return runs[-1] if runs else None


def _started(paths: RunPaths) -> int | None:
    attempt = paths.last_attempt
    evidence = paths.config(attempt) if attempt else paths.events
    try:
        return evidence.stat().st_mtime_ns
    except FileNotFoundError:
        return None

"""From the words of `trainer run` to a run directory that is ready for a worker."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from trainer import TrainerError, __version__, configs
from trainer.cli.find import RUNS, find_run
from trainer.rundir import (
    EventSink,
    EventWriter,
    PhaseEvent,
    RunEvent,
    RunPaths,
    create_run,
    create_run_at,
    host_name,
    process_age,
    read_lock,
    write_error,
)


@dataclass(frozen=True)
class Prepared:
    """A run directory with its resolved config, and the attempt that is about to begin.

    `process_start` is when the command began, in seconds since 1970. `resumes`: whether the attempt goes on from what
    an earlier one left.
    """

    paths: RunPaths
    attempt: int
    process_start: float
    task: str
    device: str
    threads: int | None
    resumes: bool
    debug: bool

    def writer(self) -> EventWriter:
        """Writes events of this attempt, beside the worker's own."""
        return EventWriter(self.paths.events, attempt=self.attempt, process_start=self.process_start)

    def announce(self, pid: int) -> None:
        """Write the attempt's first events: who trains what, and that the config is good."""
        with self.writer() as writer:
            self.announce_to(writer, pid)

    def announce_to(self, sink: EventSink, pid: int) -> None:
        """The same into a sink."""
        sink(RunEvent(self.paths.name, self.task, __version__, pid, host_name(), self.device, self.threads))
        sink(PhaseEvent("config", "finished"))


def prepare(arguments: argparse.Namespace) -> Prepared:
    """Read and check the config, make the directory (or take up the one to resume), write the resolved config.

    Raises:
        TrainerError: what is wrong with the words, the config or the directory.
    """
    process_start = time.time() - process_age()
    target, overrides = split_words(arguments.words, resuming=arguments.resume is not None)
    if arguments.resume is None:
        assert target is not None
        loaded = configs.load(target, overrides)
        name = arguments.name or loaded.config.name or _default_name(loaded.task)
        paths = create_run_at(arguments.run_dir) if arguments.run_dir else create_run(RUNS, name)
        attempt = 1
    else:
        paths = _resumable(arguments)
        loaded = configs.load(str(paths.config(paths.last_attempt).absolute()), overrides)
        attempt = paths.last_attempt + 1
    _write(paths.config(attempt), configs.dump_resolved(loaded))
    command = {"command": ["trainer", *sys.argv[1:]], "directory": os.getcwd(), "started": process_start}
    _write(paths.environment(attempt), json.dumps(command, indent=1) + "\n")
    config = loaded.config
    return Prepared(
        paths, attempt, process_start, config.task, config.device, config.threads, attempt > 1, arguments.debug
    )


def split_words(words: list[str], *, resuming: bool) -> tuple[str | None, list[str]]:
    """The config or recipe, and the overrides, from the words of a command line.

    Raises:
        TrainerError: no config, two of them, or one beside `--resume`.
    """
    targets = [word for word in words if "=" not in word or Path(word).is_file()]
    overrides = [word for word in words if word not in targets]
    if resuming and targets:
        raise TrainerError(
            "a resumed run keeps its config", found=targets[0], expected="only key=value beside --resume"
        )
    if not resuming and not targets:
        raise TrainerError("nothing to train", expected="a YAML file or a recipe's name", hint="See `trainer list`.")
    if len(targets) > 1:
        raise TrainerError("more than one config", found=" ".join(targets), expected="one, then key=value")
    return (targets[0] if targets else None), overrides


def _default_name(task: configs.TaskReference) -> str:
    return task.recipe or (task.class_name or task.folder.name).lower()


def _resumable(arguments: argparse.Namespace) -> RunPaths:
    if arguments.run_dir or arguments.name:
        raise TrainerError("a resumed run keeps its directory and name", hint="Leave --run-dir and --name out.")
    paths = find_run(arguments.resume)
    owner = read_lock(paths)
    if owner is not None and owner.alive:
        raise TrainerError(
            "this run is being trained", where=str(paths.root), found=f"pid {owner.pid} on {owner.host}",
            hint="Watch it with `trainer watch`, or stop it with `trainer stop`, first.",
        )  # fmt: skip
    if paths.last_attempt == 0:
        raise TrainerError("this run has no config to resume", where=str(paths.root))
    return paths


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise write_error(path, error) from error

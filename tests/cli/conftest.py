"""A folder with a scripted task, and commands started in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPTED = Path(__file__).parent / "scripted"
PATIENCE = 120.0
"""Seconds until a test gives up on something that takes a fraction of one."""


class Commands:
    """Starts `trainer` commands in a folder of the test, and ends those that a failing test leaves behind."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(repository), "TERM": "dumb"}
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *words: str, prefix: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[str]:
        """A command on its way, in a process group of its own."""
        command = [*prefix, sys.executable, "-P", "-m", "trainer.cli", *words]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        self._started.append(process)
        return process

    def finish(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """A command from start to end."""
        return ended(self.start(*words, **options))

    def script(self, name: str, *words: str, **options: Any) -> subprocess.Popen[str]:
        """`trainer run` with the scripted task doing `name`."""
        return self.start("run", "config.yaml", f"options.script={name}", *words, **options)

    def events(self, run: str = "runs/scripted") -> list[dict[str, Any]]:
        """The events of a run so far, as plain JSON."""
        path = self.folder / run / "events.jsonl"
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def event(self, kind: str, run: str = "runs/scripted", **fields: Any) -> dict[str, Any]:
        """The first event of a kind with these fields, waited for."""

        def matching() -> dict[str, Any] | None:
            wanted = {"kind": kind, **fields}
            return next((event for event in self.events(run) if wanted.items() <= event.items()), None)

        return eventually(matching)

    def worker_pid(self, run: str = "runs/scripted") -> int:
        """The pid of the run's worker, once the learner is running."""
        self.event("metric", run)
        return int(self.event("run", run)["pid"])

    def end_all(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """The process once it has ended, with what it printed."""
    output, errors = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def eventually(look: Callable[[], Any]) -> Any:
    """The first true answer of `look`."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.01)
    raise AssertionError("it did not come about")


@pytest.fixture
def commands(tmp_path: Path, repository: Path) -> Iterator[Commands]:
    shutil.copytree(SCRIPTED, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    commands = Commands(tmp_path, repository)
    yield commands
    commands.end_all()

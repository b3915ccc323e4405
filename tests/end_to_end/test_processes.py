"""The real learner under the process model: a short training, stopped and resumed; and the dashboard left alone."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trainer
from trainer.rundir import RunPaths, process_is_alive, read_lock, send_request

PATIENCE = 60.0
CONSTANT = "schedule.name=constant"  # the recipe's own warms up for longer than these trainings last
TRAINER = [sys.executable, "-P", "-m", "trainer.cli"]


@pytest.fixture
def environment(repository: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(repository), "TERM": "xterm-256color"}


def run(folder: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRAINER, "run", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )


def test_a_copied_recipe_trains_where_it_was_copied_to(tmp_path: Path, environment: dict[str, str]) -> None:
    copied = subprocess.run([*TRAINER, "copy", "digits", "mine"], cwd=tmp_path, env=environment, check=True)
    assert copied.returncode == 0
    done = run(tmp_path / "mine", environment, "config.yaml", "train.steps=5", CONSTANT, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["status"] == "done" and 0 <= events[-1]["metrics"]["test/accuracy"] <= 1
    phases = {event["name"] for event in events if event["kind"] == "phase"}
    assert {"config", "data", "model", "compile", "train", "checkpoint", "evaluate"} <= phases


def test_a_training_that_is_terminated_saves_and_can_be_resumed(tmp_path: Path, environment: dict[str, str]) -> None:
    first = subprocess.Popen(
        [*TRAINER, "run", "digits", "train.epochs=1000", "train.log_every_steps=1", CONSTANT, "--json"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert first.stdout is not None
    for line in first.stdout:
        if json.loads(line)["kind"] == "metric":
            break
    first.send_signal(signal.SIGTERM)
    rest, _ = first.communicate(timeout=PATIENCE)
    assert first.returncode == 143
    end = json.loads(rest.splitlines()[-1])
    assert (end["kind"], end["status"], end["exit_code"]) == ("end", "interrupted", 143)
    done = run(tmp_path, environment, "--resume", "digits", f"train.steps={end['step'] + 5}")
    assert (done.returncode, done.stderr) == (0, "")
    after = trainer.open_run(tmp_path / "runs" / "digits")
    assert after.status == "done" and after.attempt == 2
    steps = list(after.metrics["train/loss"].step)
    assert steps == [*range(1, end["step"] + 6)]


class Terminal:
    """A `trainer` command on a terminal of 120x40."""

    def __init__(self, folder: Path, environment: dict[str, str], *words: str) -> None:
        self.descriptor, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            [*TRAINER, *words], cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.seen = b""

    def read_until(self, text: bytes) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen[-2000:]
            self.read()

    def read(self) -> None:
        if select.select([self.descriptor], [], [], 0.1)[0]:
            try:
                self.seen += os.read(self.descriptor, 1 << 16)
            except OSError:  # the other side has closed
                time.sleep(0.01)

    def end(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.seen[-2000:]
            self.read()
        self.read()
        return self.process.returncode


@pytest.fixture
def detached(tmp_path: Path) -> Iterator[RunPaths]:
    """The directory of a run that outlives its command, and is ended with the test."""
    paths = RunPaths(tmp_path / "runs" / "long")
    yield paths
    owner: Any = read_lock(paths) if paths.root.exists() else None
    if owner is not None and owner.alive:
        os.kill(owner.pid, signal.SIGKILL)


def test_leaving_the_dashboard_leaves_the_run_training(
    tmp_path: Path, environment: dict[str, str], detached: RunPaths
) -> None:
    terminal = Terminal(tmp_path, environment, "run", "digits", "train.epochs=1000", "--name", "long")
    terminal.read_until(b"long")
    os.write(terminal.descriptor, b"q")
    assert terminal.end() == 0
    assert b"trainer watch" in terminal.seen and b"trainer stop" in terminal.seen
    os.close(terminal.descriptor)
    after = trainer.open_run(detached.root)
    deadline = time.monotonic() + PATIENCE
    while "train/loss" not in after.metrics:
        assert time.monotonic() < deadline and after.status in ("starting", "running")
        after.refresh()
        time.sleep(0.01)
    owner = read_lock(detached)
    assert owner is not None and os.getsid(owner.pid) == owner.pid
    send_request(detached, "stop")
    while process_is_alive(owner.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    after.refresh()
    assert after.status == "stopped"


def test_a_run_whose_terminal_is_closed_goes_on_training(
    tmp_path: Path, environment: dict[str, str], detached: RunPaths
) -> None:
    terminal = Terminal(tmp_path, environment, "run", "digits", "train.epochs=1000", "--name", "long")
    terminal.read_until(b"phases")
    os.close(terminal.descriptor)
    assert terminal.process.wait(PATIENCE) == 143
    after = trainer.open_run(detached.root)
    deadline = time.monotonic() + PATIENCE
    while "train/loss" not in after.metrics:
        assert time.monotonic() < deadline and after.status in ("starting", "running")
        after.refresh()
        time.sleep(0.01)


def test_a_mistake_on_a_terminal_is_said_in_plain_text(tmp_path: Path, environment: dict[str, str]) -> None:
    terminal = Terminal(tmp_path, environment, "run", "digits", "train.epoch=3")
    assert terminal.end() == 2
    told = terminal.seen.rpartition(b"\x1b[?25h")[2]  # on a busy machine reading takes so long that it is shown first
    assert b"did you mean 'epochs'?" in told and b"\x1b[" not in told

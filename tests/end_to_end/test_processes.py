"""The real learner under the process model: a short training, stopped and resumed; and the dashboard left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tui"))

from pseudo_terminal import Terminal

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
    copied = subprocess.run([*TRAINER, "new", "mine", "--recipe", "digits"], cwd=tmp_path, env=environment, check=True)
    assert copied.returncode == 0
    done = run(tmp_path / "mine", environment, "config.yaml", "train.steps=5", CONSTANT, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["status"] == "done" and 0 <= events[-1]["metrics"]["test/accuracy"] <= 1
    phases = {event["name"] for event in events if event["kind"] == "phase"}
    assert {"config", "data", "model", "compile", "train", "checkpoint", "evaluate"} <= phases


@pytest.mark.full
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


@pytest.fixture
def detached(tmp_path: Path) -> Iterator[RunPaths]:
    """The directory of a run that outlives its command, and is ended with the test."""
    paths = RunPaths(tmp_path / "runs" / "long")
    yield paths
    owner: Any = read_lock(paths) if paths.root.exists() else None
    if owner is not None and owner.alive:
        os.kill(owner.pid, signal.SIGKILL)


def test_leaving_the_dashboard_leaves_the_run_training(tmp_path: Path, detached: RunPaths) -> None:
    with Terminal([*TRAINER, "run", "digits", "train.epochs=1000", "--name", "long"], tmp_path, (120, 40)) as terminal:
        terminal.until("long")
        terminal.press("q")
        assert terminal.wait() == 0
        assert b"trainer watch" in terminal.output and b"trainer stop" in terminal.output
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


def test_a_run_whose_terminal_is_closed_goes_on_training(tmp_path: Path, detached: RunPaths) -> None:
    with Terminal([*TRAINER, "run", "digits", "train.epochs=1000", "--name", "long"], tmp_path, (120, 40)) as terminal:
        terminal.until("phases")
        terminal.close()
        assert terminal.process.wait(PATIENCE) == 143
    deadline = time.monotonic() + PATIENCE
    while not detached.events.exists():  # its configuration may still have been read
        assert time.monotonic() < deadline
        time.sleep(0.01)
    after = trainer.open_run(detached.root)
    while "train/loss" not in after.metrics:
        assert time.monotonic() < deadline and after.status in ("starting", "running")
        after.refresh()
        time.sleep(0.01)


def test_a_mistake_on_a_terminal_is_said_in_plain_text(tmp_path: Path) -> None:
    with Terminal([*TRAINER, "run", "digits", "train.epoch=3"], tmp_path) as terminal:
        assert terminal.wait() == 2
        told = terminal.output.rpartition(b"\x1b[?25h")[2]  # where reading takes long, on a busy machine, it is shown
        assert told == b"\x1b[1;31merror:\x1b[0m <cli> train.epoch: unknown key, did you mean 'epochs'?\r\n"
        assert terminal.is_given_back()

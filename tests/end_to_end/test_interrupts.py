"""A first signal ends a real run soon, whatever it is at, with its code, a checkpoint, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer.learner.checkpoints import first_difference, read_checkpoint
from trainer.rundir import RunPaths, last_records, send_request

pytestmark = [pytest.mark.full, pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")]

PATIENCE = 60.0
"""Seconds until a test gives up on what takes one or two, and must not take ten on an idle machine."""

TASK = """\
import os
import numpy as np
from trainer import engine
from trainer.datasets import ArrayDataset, loaders
from trainer.engine import nn
from trainer.learner import DataSplits, Task
from trainer.metrics import Mean


class Deep(Task):
    def data(self):
        count = int(os.environ["ITEMS"])
        for done in range(count if os.environ.get("SLOW") else 0):
            self.opening.progress(done, count)
        values = np.random.default_rng(0).standard_normal((256, 3, 32, 32)).astype(np.float32)
        data = ArrayDataset({"x": values})
        evaluated = ArrayDataset({"x": np.tile(values, (count // 256, 1, 1, 1))})
        return DataSplits(**loaders({"train": data, "valid": evaluated, "test": evaluated}, self.config))

    def build(self):
        layers = [part for _ in range(12) for part in (nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Tanh())]
        self.net = nn.Sequential(*layers)
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch):
        measured = self.valid_step(batch)
        self.optimizer.minimize(measured["loss"].value)
        return measured

    def valid_step(self, batch):
        return {"loss": Mean(engine.mean(self.net(batch["x"]) ** 2))}
"""
CONFIG = """\
task: ./task.py:Deep
threads: 1
data: {batch_size: 16}
optimizer: {name: sgd, learning_rate: 0.01}
train: {steps: 4, log_every_steps: 1}
validate: {every_steps: 3}
"""


def begun(name: str, state: str = "progress", least: float = 1) -> Callable[[dict[str, Any]], bool]:
    """Whether an event says that a phase has come so far."""
    return lambda event: (
        (event["kind"], event.get("name"), event.get("state")) == ("phase", name, state)
        and (event.get("done") or 0) >= least
    )


LONG = "train.steps=100000"
"""So that a wish that comes late, on a machine with other work, still finds a run."""

AT: dict[str, tuple[Callable[[dict[str, Any]], bool], dict[str, str], tuple[str, ...], int]] = {
    "indexing": (begun("data"), {"SLOW": "1", "ITEMS": "100000000"}, (), 0),
    "planning": (begun("trace", least=0), {}, (LONG,), 0),
    "compiling": (begun("compile"), {}, (LONG,), 0),
    "autotune": (begun("autotune"), {}, ("autotune.mode=upfront", LONG), 0),
    "validating": (begun("validate", least=2), {"ITEMS": "51200"}, (), 3),
    "testing": (begun("evaluate", least=2), {"ITEMS": "51200"}, ("validate.batches=1",), 4),
    "accumulating": (begun("train", least=1), {}, ("train.accumulate=16", LONG), 1),
}
"""What it is at: when that has begun, variables, values, and the least step that is saved."""


class Folder:
    """A folder with the task, and runs in it."""

    def __init__(self, path: Path, repository: Path) -> None:
        self.path, self.paths = path, RunPaths(path / "run")
        (path / "task.py").write_text(TASK)
        (path / "config.yaml").write_text(CONFIG)
        self.environment = {
            **os.environ, "PYTHONPATH": str(repository), "ITEMS": "256", "TRAINER_CACHE_DIR": str(path / "cache")
        }  # fmt: skip

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "trainer.cli", "run", *words]
        return subprocess.Popen(
            command, cwd=self.path, env={**self.environment, **variables}, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def wait_for(self, happened: Callable[[dict[str, Any]], bool], process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            if self.paths.events.exists():
                lines = self.paths.events.read_text().split("\n")[:-1]
                if any(happened(json.loads(line)) for line in lines):
                    return
            time.sleep(0.005)
        raise AssertionError(f"it did not come to that: {process.poll()}")


@pytest.fixture
def folder(tmp_path: Path, repository: Path) -> Folder:
    return Folder(tmp_path, repository)


HOW = "SIGINT", "SIGTERM", "stop"
PAIRS = [*((what, HOW[number % 3]) for number, what in enumerate(AT)), ("compiling", "stop"), ("validating", "SIGINT")]


@pytest.mark.parametrize(("what", "how"), PAIRS)
def test_one_wish_ends_a_run_whatever_it_is_at(folder: Folder, what: str, how: str) -> None:
    happened, variables, values, step = AT[what]
    process = folder.start("config.yaml", *values, "--plain", "--run-dir", "run", **variables)
    try:
        folder.wait_for(happened, process)
        if how == "stop":
            send_request(folder.paths, "stop")
        else:
            process.send_signal(getattr(signal, how))
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    status, code = {"SIGINT": ("interrupted", 130), "SIGTERM": ("interrupted", 143), "stop": ("stopped", 0)}[how]
    assert (process.returncode, errors) == (code, "")
    end = last_records(folder.paths.events)[-1].event
    assert (end.kind, end.status, end.exit_code) == ("end", status, code)  # type: ignore[attr-defined]
    assert end.step >= step  # type: ignore[attr-defined]
    if end.step:  # type: ignore[attr-defined]
        read_checkpoint(folder.paths.checkpoints / f"step-{end.step}")  # type: ignore[attr-defined]
    assert not folder.paths.lock.exists()


def test_signal_after_signal_leaves_a_good_checkpoint(folder: Folder) -> None:
    """Whether the second comes before the first was acted on, or while its checkpoint is written."""
    process = folder.start("config.yaml", "--in-process", "--plain", "--run-dir", "run", "checkpoint.every_steps=1",
                           "train.steps=1000000", "validate.every_steps=2")  # fmt: skip
    try:
        folder.wait_for(lambda event: event["kind"] == "checkpoint" and event["step"] > 2, process)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode in (130, -signal.SIGINT) and "Traceback" not in errors  # the latter when all was over
    resumed = folder.start("--resume", "run", "--in-process", "--plain", "train.steps=1000000", "train.minutes=0.001")
    assert resumed.communicate(timeout=PATIENCE)[1] == "" and resumed.returncode == 0


def test_a_run_that_was_stopped_in_every_phase_has_the_bits_of_one_that_was_not(folder: Folder) -> None:
    whole = folder.start("config.yaml", "--plain", "--run-dir", "whole", ITEMS="10240")
    assert whole.communicate(timeout=PATIENCE)[1] == "" and whole.returncode == 0
    words: tuple[str, ...] = ("config.yaml", "--run-dir", "run")
    for what in ("validating", "testing"):
        process = folder.start(*words, "--plain", ITEMS="10240")
        folder.wait_for(AT[what][0], process)
        process.terminate()
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 143
        words = ("--resume", "run")
    last = folder.start(*words, "--plain", ITEMS="10240")
    assert last.communicate(timeout=PATIENCE)[1] == "" and last.returncode == 0
    one, other = (read_checkpoint(folder.path / run / "checkpoints/step-4") for run in ("whole", "run"))
    assert first_difference(one, other) is None

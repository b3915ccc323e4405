"""Several processes come to the bits of one, are resumed as another number, and name the one that is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.slurm_cluster import SlurmCluster, missing_commands
from trainer.learner.checkpoints import first_difference, read_checkpoint
from trainer.rundir import EndEvent, MetricEvent, read_events, without_superseded
from trainer.rundir.processes import process_is_alive

pytest.importorskip("mpi4py", reason="training in several processes needs the extra `distributed`")
pytestmark = pytest.mark.full

PATIENCE = 120.0
"""Seconds until a test gives up."""

TASK = """\
import numpy as np
from trainer import engine
from trainer.datasets import ArrayDataset, loaders
from trainer.engine import nn
from trainer.learner import DataSplits, Task
from trainer.metrics import Mean, Predictions


class Small(Task):
    def data(self):
        generator = np.random.default_rng(0)
        labels = generator.integers(0, 2, 44)
        images = (generator.normal(size=(44, 2, 6, 6)) + labels[:, None, None, None]).astype(np.float32)
        data = ArrayDataset({"x": images, "label": labels})
        return DataSplits(**loaders({"train": data, "valid": data}, self.config))

    def build(self):
        self.net = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                                 nn.Dropout(0.2), nn.Linear(288, 2))
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch):
        measured = self.valid_step(batch)
        self.optimizer.minimize(measured["loss"].value)
        return measured

    def valid_step(self, batch):
        logits = self.net(batch["x"])
        losses = nn.cross_entropy(logits, batch["label"], reduction="none")
        classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
        return {"loss": Mean(losses, batch["weight"]), "classes": classes}
"""
BUSY = """\
import ctypes
import time
from trainer.learner import Hook


class Wait(Hook):
    is_inline = True

    def after_step(self, training, moment):
        if training.progress.step == 3:
            open("{name}.busy", "w").close()
            {wait}


class Busy(Small):
    def hooks(self):
        return [Wait()]
"""
CONFIG = """\
task: ./task.py:Small
data: {batch_size: 16}
optimizer: {name: adam, learning_rate: 0.01}
metrics: {valid: [accuracy, roc_auc]}
train: {shards: 4, log_every_steps: 2, gradient_clip_norm: 0.5, ema: {decay: 0.9}}
validate: {every_steps: 4}
checkpoint: {every_steps: 2, keep_last: 50}
autotune: {mode: "off"}
"""


def trainer(folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trainer.cli", "run", *words, "--plain"],
        cwd=folder, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def run(folder: Path, *words: str) -> None:
    process = trainer(folder, *words)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output


def metrics_of(root: Path) -> list[tuple[int, str, dict[str, float]]]:
    """Metrics of a run without speeds."""
    events = [record.event for record in without_superseded(list(read_events(root / "events.jsonl")))]
    return [
        (event.step, event.split, {name: value for name, value in event.values.items() if "per_second" not in name})
        for event in events
        if isinstance(event, MetricEvent)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task, and a run of 8 steps in one process."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "task.py").write_text(TASK, encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    run(folder, "config.yaml", "train.steps=8", "--run-dir", "whole")
    return folder


def assert_same(folder: Path, name: str) -> None:
    whole, other = (read_checkpoint(folder / each / "checkpoints" / "step-8") for each in ("whole", name))
    assert first_difference(whole, other) is None
    assert metrics_of(folder / name) == metrics_of(folder / "whole")


def test_two_processes_come_to_the_bits_and_metrics_of_one(folder: Path) -> None:
    run(folder, "config.yaml", "train.steps=8", "train.processes=2", "--run-dir", "two")
    assert_same(folder, "two")


def test_a_run_of_four_processes_is_resumed_by_one(folder: Path) -> None:
    run(folder, "config.yaml", "train.steps=4", "train.processes=4", "--run-dir", "four")
    run(folder, "--resume", "four", "train.steps=8", "train.processes=1")
    assert_same(folder, "four")


def test_divided_optimizer_state_comes_to_the_same_bits_and_is_resumed_by_more(folder: Path) -> None:
    divided = "train.shard_optimizer=true"
    run(folder, "config.yaml", divided, "train.steps=4", "train.processes=2", "--run-dir", "divided")
    run(folder, "--resume", "divided", divided, "train.steps=8", "train.processes=4")
    assert_same(folder, "divided")


def started_as_by_torchrun(folder: Path, *words: str) -> list[subprocess.Popen[str]]:
    """Two processes of one training, by rank."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [trainer(folder, "config.yaml", *words, RANK=str(rank), **place) for rank in range(2)]


def test_processes_with_the_variables_of_torchrun_come_to_the_same_bits(folder: Path) -> None:
    for process in started_as_by_torchrun(folder, "train.steps=8", "--run-dir", "torchrun"):
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, output
    assert_same(folder, "torchrun")


def test_only_the_first_of_several_processes_reports_a_mistake(folder: Path) -> None:
    processes = started_as_by_torchrun(folder, "train.steps=8", "data.batch_size=6", "--run-dir", "mistaken")
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert outputs[0].count("error: the shards do not divide the batch") == 1 and outputs[1] == ""
    assert [process.returncode for process in processes] == [2, 2]


@pytest.mark.skipif(bool(missing_commands()), reason=f"Slurm is not installed: no {', '.join(missing_commands())}")
def test_srun_starts_the_processes(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SlurmCluster(tmp_path / "slurm") as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.config))
        words = ["run", "config.yaml", "train.steps=8", "--run-dir", "slurm", "--plain"]
        found = subprocess.run(
            ["srun", "--mpi=pmi2", "--overcommit", "-n", "2", sys.executable, "-m", "trainer.cli", *words],
            cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert found.returncode == 0, found.stdout + found.stderr
    assert_same(folder, "slurm")


def beaten(root: Path, rank: int, after: Path | None = None) -> dict[str, Any]:
    """What a rank's heartbeat says, once a file exists: by default, a checkpoint of the run."""
    deadline = time.monotonic() + PATIENCE
    while not (after or root / "checkpoints" / "step-2").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    found: dict[str, Any] = json.loads((root / "ranks" / "1" / f"{rank}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_rank_is_named_and_nothing_is_left_behind(folder: Path, number: signal.Signals, rank: int) -> None:
    name = f"{number.name}-{rank}"
    process = trainer(folder, "config.yaml", "train.steps=100000", "train.processes=2", "--run-dir", name)
    lost = beaten(folder / name, rank)
    os.kill(lost["pid"], number)
    assert_named(process, folder / name, f"rank {rank} (pid {lost['pid']} on {lost['host']})")
    assert not process_is_alive(lost["pid"], lost["started"])


def test_a_rank_that_is_lost_before_its_heartbeat_is_named(folder: Path) -> None:
    process = trainer(folder, "config.yaml", "train.steps=8", "train.processes=2", "--run-dir", "early")
    os.kill(pid_of_rank(process, 1), signal.SIGKILL)
    assert_named(process, folder / "early", "rank 1 was killed by SIGKILL")


def test_a_lost_rank_is_named_while_the_first_is_busy(folder: Path) -> None:
    """In a hook of a user, which holds the interpreter's lock or gives it to other threads."""
    for name, wait in (("idle", "time.sleep(1e6)"), ("holding", "ctypes.PyDLL(None).sleep(1000000)")):
        (folder / f"{name}.py").write_text(TASK + BUSY.format(name=name, wait=wait), encoding="utf-8")
        words = f"task=./{name}.py:Busy", "train.steps=8", "train.processes=2", "--run-dir", name
        process = trainer(folder, "config.yaml", *words)
        lost = beaten(folder / name, 1, after=folder / f"{name}.busy")
        os.kill(lost["pid"], signal.SIGKILL)
        assert_named(process, folder / name, f"rank 1 (pid {lost['pid']} on {lost['host']})")


def assert_named(process: subprocess.Popen[str], root: Path, words: str) -> None:
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and words in output, output
    end = [record.event for record in read_events(root / "events.jsonl")][-1]
    assert isinstance(end, EndEvent) and end.status == "failed" and words in str(end.reason)
    assert not (root / "run.lock").exists() and not [*root.glob("ranks/*/*.ended.*")]


def pid_of_rank(command: subprocess.Popen[str], rank: int) -> int:
    """The process of a rank, as soon as it exists."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for process in psutil.Process(command.pid).children(recursive=True):
            with suppress(psutil.Error):
                if "trainer.cli.rank" in process.cmdline()[:4] and process.environ().get("PMI_RANK") == str(rank):
                    return int(process.pid)
    raise AssertionError(f"no rank {rank} within {PATIENCE} s")

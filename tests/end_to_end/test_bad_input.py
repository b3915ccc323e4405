"""What can be wrong with a run and around it: one clear error each, from the real command and the real learner."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trainer
from tests.faults.small_disk import can_mount, on_disk

TRAINER = [sys.executable, "-P", "-m", "trainer.cli"]
SHORT = ("train.steps=3", "train.epochs=null", "schedule.name=constant")
PATIENCE = 60.0


def failed(folder: Path, repository: Path, *words: str, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
    """The exit code and the error of `trainer run`, which says one thing, without a traceback."""
    done = subprocess.run(
        [*prefix, *TRAINER, "run", *words], cwd=folder, env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stderr.startswith("error: ") and done.stderr.count("error: ") == 1 and "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_loss_that_is_not_finite_ends_the_run_and_names_its_step(tmp_path: Path, repository: Path) -> None:
    code, error = failed(tmp_path, repository, "digits", *SHORT, "optimizer.learning_rate=1e6")
    assert code == 1 and "train/loss is not finite at step 3" in error and "learning_rate 1e+06" in error
    assert "No checkpoint had been written" in error
    end = trainer.open_run(tmp_path / "runs" / "digits").end
    assert end is not None and (end.status, end.exit_code) == ("failed", 1)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("data.root=nowhere", "nowhere\n"),
        ("model.weights=nowhere.safetensors", "model.weights: no such file: {folder}/nowhere.safetensors"),
    ],
)
def test_a_file_that_is_missing_is_named(tmp_path: Path, repository: Path, word: str, said: str) -> None:
    code, error = failed(tmp_path, repository, "digits", *SHORT, word)
    assert code == 2 and said.format(folder=tmp_path) in error


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that opens and can't be read")
def test_a_config_that_cannot_be_read_is_named(tmp_path: Path, repository: Path) -> None:
    code, error = failed(tmp_path, repository, "/proc/self/mem")
    assert code == 2 and error == "error: /proc/self/mem: can't be read: Input/output error\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("size=1m,ro", "read-only file system"),
        ("size=8k", "no space left on device"),  # before training
        ("size=300k", "no space left on device"),  # at the first checkpoint
    ],
)
def test_a_disk_that_takes_no_more_is_said(tmp_path: Path, repository: Path, options: str, said: str) -> None:
    if not can_mount():
        pytest.skip("mounting is not permitted here")
    (tmp_path / "disk").mkdir()
    code, error = failed(
        tmp_path, repository, "digits", *SHORT, "--run-dir", "disk/run", prefix=tuple(on_disk(options))
    )
    assert code == 2 and error.count(f"can't write: {said}") == 1 and "--run-dir" in error

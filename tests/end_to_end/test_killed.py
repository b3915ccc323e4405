"""A run that is killed again and again ends with the bits of one that never was."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer.learner.checkpoints import checkpoint_folder, read_checkpoint
from trainer.rundir import RunPaths, open_run

KILLS = 12
SETTINGS = [
    "train.epochs=2", "train.accumulate=2", "train.ema.decay=0.99", "train.precision=float16",
    "train.log_every_steps=3", "validate.every_steps=20", "validate.batches=1", "checkpoint.every_steps=4",
    "checkpoint.keep_every=5", "checkpoint.best={metric: valid/loss, mode: min, keep: 2}",
]  # fmt: skip


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "trainer.cli", "run", *words, "--in-process", "--plain"]


def arrays(run: Path) -> dict[str, np.ndarray]:
    checkpoint = read_checkpoint(checkpoint_folder(run))
    return {
        f"{stem}/{name}": array.values for stem, group in checkpoint.arrays.items() for name, array in group.items()
    }


@pytest.mark.full
def test_a_run_killed_at_random_instants_ends_with_the_same_bits(tmp_path: Path, repository: Path) -> None:
    where: Any = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(repository)}}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(
        command("digits", *SETTINGS, "--run-dir", str(whole)), check=True, stdout=subprocess.DEVNULL, **where
    )
    instants, kills = random.Random(0), 0
    while kills < KILLS:
        is_first = not RunPaths(killed).config(1).is_file()
        words = ["digits", *SETTINGS, "--run-dir", str(killed)] if is_first else ["--resume", str(killed)]
        process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, text=True, **where)
        assert process.stdout is not None
        lines = instants.randrange(5, 60)  # killed when it has told so much, and so never by a clock
        for _ in zip(range(lines), process.stdout, strict=False):
            pass
        process.kill()
        process.stdout.close()
        kills += process.wait() != 0
        if process.returncode == 0:
            break
    if process.returncode != 0:
        subprocess.run(command("--resume", str(killed)), check=True, stdout=subprocess.DEVNULL, **where)
    expected, found = arrays(whole), arrays(killed)
    assert expected.keys() == found.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    one, other = open_run(whole).metrics, open_run(killed).metrics
    for metric in ("train/loss", "valid/loss", "valid/ema/loss", "test/accuracy"):
        assert list(one[metric].step) == list(other[metric].step)
        assert list(one[metric].value) == list(other[metric].value)
    assert not [path for path in (killed / "checkpoints").iterdir() if path.name.startswith(".step")]
    assert kills > 3

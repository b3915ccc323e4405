"""A disk that fills up, or becomes read-only, while a run trains: what is said, what is kept, and what goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.small_disk import can_mount, on_disk
from trainer.learner.checkpoints import read_checkpoint, steps_in
from trainer.rundir import Run, WarningEvent, open_run

HOOK = '''
import errno, os, subprocess
from trainer.learner import Hook

FOLDER = "disk/run/checkpoints"  # a disk can't become read-only by a command while a file is open for writing on it


class Disk(Hook):
    """Takes the disk away before step 6, and gives it back before step `back`."""

    is_inline, order = True, 1

    def __init__(self, how, back):
        self.how, self.back = how, back

    def before_step(self, training, moment):
        if moment.step in (5, self.back - 1):
            training.saving.finish()
        if moment.step == 5:
            print("the disk is taken away", "x" * 100_000)
            self.take()
            print("gone", "x" * 100_000)
        elif moment.step == self.back - 1:
            self.give_back()

    def take(self):
        if self.how == "read-only":
            subprocess.run(["mount", "--bind", FOLDER, FOLDER], check=True)
            subprocess.run(["mount", "-o", "remount,bind,ro", FOLDER], check=True)
            return
        with open("disk/rest", "wb", buffering=0) as file:
            for size in (1 << 16, 1 << 8, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    assert error.errno == errno.ENOSPC

    def give_back(self):
        if self.how == "read-only":
            subprocess.run(["umount", FOLDER], check=True)
        else:
            os.remove("disk/rest")
'''
SETTINGS = (
    "train.steps=16", "train.epochs=null", "schedule.name=constant", "train.log_every_steps=1", "autotune.mode=off",
    "validate.every_steps=4", "validate.batches=1", "metrics.valid=[accuracy, confusion_matrix]",
    "checkpoint={every_steps: 2, keep_last: 3, on_error: %s}", "data.reader.fractions.test=0.05",
)  # fmt: skip


def run_on_a_disk(folder: Path, repository: Path, how: str, on_error: str, back: int) -> tuple[int, str, Run]:
    """Exit code and error stream of `trainer run`, and the run as it lies on the disk at the end."""
    if not can_mount():
        pytest.skip("mounting is not permitted here")
    (folder / "disk").mkdir()
    (folder / "hook.py").write_text(HOOK)
    hook = f"hooks=[{{name: './hook.py:Disk', options: {{how: {how}, back: {back}}}}}]"
    words = ["digits", *(word % on_error if "%s" in word else word for word in SETTINGS), hook]
    train = [sys.executable, "-P", "-m", "trainer.cli", "run", *words, "--run-dir", "disk/run", "--plain"]
    # What was mounted is gone with the command, and so copied before.
    shell = '"$@"; code=$?; rm -f disk/rest; cp -r disk/run kept; exit $code'
    done = subprocess.run(
        [*on_disk("size=24m"), "sh", "-c", shell, "sh", *train],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(repository)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stderr, open_run(folder / "kept")


@pytest.mark.full
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_run_that_may_go_on_loses_nothing_of_its_record(tmp_path: Path, repository: Path, how: str) -> None:
    code, said, run = run_on_a_disk(tmp_path, repository, how, "warn", back=12)
    assert code == 0, said
    reason = "no space left on device" if how == "full" else "read-only file system"
    if how == "full":
        assert said.count("warning: ") == 1 and "events.jsonl" in said and reason in said and "held in memory" in said
    assert list(run.metrics["train/loss"].step) == list(range(1, 17))
    warnings = [record.event.message for record in run.events() if isinstance(record.event, WarningEvent)]
    refused = [text for text in warnings if "A checkpoint was not written" in text]
    assert len(refused) == 3 and all(reason in text and "--run-dir" in text for text in refused)
    assert sum("held in memory meanwhile" in text for text in warnings) == (how == "full")
    assert run.end is not None and run.end.status == "done"
    assert steps_in(run.paths.checkpoints) == [12, 14, 16]
    assert read_checkpoint(run.paths.checkpoints / "step-16").state["step"] == 16


@pytest.mark.full
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_run_that_is_to_stop_says_why_and_keeps_the_last_checkpoints(
    tmp_path: Path, repository: Path, how: str
) -> None:
    code, said, run = run_on_a_disk(tmp_path, repository, how, "stop", back=999)
    reason = "no space left on device" if how == "full" else "read-only file system"
    assert code == 2 and said.count("error: ") == 1 and reason in said and "--run-dir" in said, said
    kept = steps_in(run.paths.checkpoints)
    assert kept == [2, 4]
    assert [read_checkpoint(run.paths.checkpoints / f"step-{step}").state["step"] for step in kept] == kept
    assert max(run.metrics["train/loss"].step) >= 5
    if how == "read-only" or run.end is not None:  # on a full disk it depends on a few bytes whether it can be written
        assert run.end is not None and run.end.status == "failed"

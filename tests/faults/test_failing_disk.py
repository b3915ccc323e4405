"""A disk that refuses any operation of a checkpoint: it is said, nothing older is lost, later saves work again."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.faults.disks import Failing, Recorder
from tests.faults.small_run import small_config, train
from trainer import TrainerError, engine
from trainer.engine import State
from trainer.learner.checkpoints import (
    DISK,
    CheckpointKeeper,
    Disk,
    Keep,
    checkpoint_folder,
    first_difference,
    pointed,
    read_checkpoint,
    steps_in,
)
from trainer.rundir import Event, WarningEvent, create_run

ERRORS = {
    errno.ENOSPC: "no space left on device",
    errno.EROFS: "read-only file system",
    errno.EIO: "input/output error",
}
VALUES = {10: 0.3, 20: 0.5, 30: 0.2, 40: 0.4}
FOR_EVER = 1 << 60


def keeper_of(folder: Path, told: list[Event], disk: Disk = DISK) -> CheckpointKeeper:
    return CheckpointKeeper(folder, told.append, Keep(1, best=1, mode="min"), disk=disk)


def save(keeper: CheckpointKeeper, step: int) -> None:
    weight = State(np.full((3, 4), float(step)), "net.weight", engine.float32)
    keeper.save(step, keeper.copy({"model": {"net.weight": weight}}), {"step": step}, value=VALUES[step])
    keeper.wait()


@pytest.mark.parametrize(
    ("times", "errors"),
    [(1, [errno.ENOSPC, errno.EROFS, errno.EIO]), (FOR_EVER, [errno.EIO, errno.ENOSPC, errno.EROFS])]
    + [pytest.param(times, [number], marks=pytest.mark.full) for times in (1, FOR_EVER) for number in ERRORS],
)
def test_a_refused_operation_loses_no_checkpoint(tmp_path: Path, times: int, errors: list[int]) -> None:
    before = keeper_of(tmp_path / "before", [])
    save(before, 10)
    save(before, 20)
    assert steps_in(tmp_path / "before") == [10, 20]
    for first, number in enumerate(itertools.cycle(errors), 1):
        folder, told = tmp_path / f"{first}", list[Event]()
        shutil.copytree(tmp_path / "before", folder)
        disk = Failing(number, first, first + times - 1)
        keeper = keeper_of(folder, told, disk)
        try:
            save(keeper, 30)
        except TrainerError as error:
            assert ERRORS[number] in str(error) and str(folder) in str(error) and "--run-dir" in str(error)
        else:  # what came after the checkpoint was complete is a warning
            said = [event.message for event in told if isinstance(event, WarningEvent)]
            assert disk.count < first or (len(said) == 1 and ERRORS[number] in said[0])
        kept = steps_in(folder)
        assert {10, 20} <= {*kept} or 30 in kept
        for step in kept:
            assert read_checkpoint(folder / f"step-{step}").state["step"] == step
        disk.last = 0  # the disk is well again
        save(keeper, 40)
        assert read_checkpoint(checkpoint_folder(folder)).state["step"] == 40
        assert keeper.best_step == (30 if 30 in kept else 10) and pointed(folder, "latest") == folder / "step-40"
        assert steps_in(folder) == sorted({keeper.best_step, 40})
        keeper_of(folder, told)
        assert not [name for name in os.listdir(folder) if name.startswith(".")]
        if disk.count < first:
            break
    assert first > 20


def operations_of_a_run(folder: Path) -> tuple[int, int, Path]:
    """The first and last operation of the third checkpoint of the small run, and the run's folder."""
    whole = create_run(folder, "whole")
    journal = Recorder(whole.checkpoints)
    train(whole, small_config(), lambda event: None, disk=journal).check()
    ends = [n for n, (name, words) in enumerate(journal.asked, 1) if (name, words[-1]) == ("rename", ("latest",))]
    return ends[1] + 8, ends[2], whole.checkpoints


@pytest.mark.parametrize("every", [17, pytest.param(3, marks=pytest.mark.full)])
def test_a_run_goes_on_without_a_checkpoint_or_stops_as_configured(tmp_path: Path, every: int) -> None:
    first, last, whole = operations_of_a_run(tmp_path)
    assert last - first > 40
    numbers = itertools.cycle(ERRORS)
    checkpoint = small_config().checkpoint
    for at, on_error in zip(range(first, last, every), itertools.cycle(("warn", "stop", "warn")), strict=False):
        number, told = next(numbers), list[Event]()
        paths = create_run(tmp_path, f"{at}-{on_error}")
        config = small_config(checkpoint=checkpoint.model_copy(update={"on_error": on_error}).model_dump())
        outcome = train(paths, config, told.append, disk=Failing(number, at, at))
        said = [event.message for event in told if isinstance(event, WarningEvent)]
        if on_error == "stop":
            assert (outcome.status, outcome.exit_code) == ("failed", 2) and not said
            assert ERRORS[number] in str(outcome.error) and str(paths.checkpoints) in str(outcome.error)
            assert read_checkpoint(checkpoint_folder(paths.root)).state["step"] in (4, 6)
            continue
        assert outcome.status == "done"
        assert len(said) == 1 and ERRORS[number] in said[0] and str(paths.checkpoints) in said[0]
        one, other = read_checkpoint(whole / "step-10"), read_checkpoint(checkpoint_folder(paths.root))
        different = first_difference(one, other)
        assert different is None or different[0] == "state.json config_sha256", (at, different)

"""A run whose directory is deleted or moved, or whose disk is full, while it trains: one ending, with its reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Commands, ended
from trainer import TrainerError
from trainer.cli.attempt import Attempt
from trainer.cli.worker import RecordedSink
from trainer.learner.checkpoints import Array, write_checkpoint
from trainer.learner.samples import Sample, write_samples
from trainer.rundir import EndEvent, Event, RunPaths, WarningEvent


@pytest.mark.parametrize("form", ["--plain", "--in-process"])
@pytest.mark.parametrize("is_moved", [True, False])
def test_a_run_without_its_directory_fails_once_and_makes_no_other(
    form: str, is_moved: bool, commands: Commands
) -> None:
    process = commands.script("outlive", form)
    commands.event("metric")
    runs = commands.folder / "runs"
    if is_moved:
        (runs / "scripted").rename(runs / "elsewhere")
    else:
        shutil.rmtree(runs / "scripted")
    done = ended(process)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "runs/scripted: the run directory no longer exists" in done.stderr
    assert [entry.name for entry in runs.iterdir()] == (["elsewhere"] if is_moved else [])
    assert "end=done" not in done.stdout
    if is_moved:
        last = json.loads((runs / "elsewhere" / "events.jsonl").read_text().splitlines()[-1])
        assert (last["kind"], last["status"], last["exit_code"]) == ("end", "failed", 2)


def test_nothing_makes_the_directory_again(tmp_path: Path) -> None:
    paths, told = RunPaths(tmp_path / "gone"), list[Event]()
    write_samples([Sample("a", text="b")], paths, told.append, step=1, split="valid")
    assert [type(event) for event in told] == [WarningEvent]
    arrays = {"model": {"weight": Array(np.zeros(1, np.float32), "float32")}}
    with pytest.raises(TrainerError, match="Its folder no longer exists: was it deleted or moved"):
        write_checkpoint(paths.checkpoints, 1, arrays, {})  # type: ignore[arg-type]
    assert not paths.root.exists()


def test_an_end_that_could_not_be_written_is_none(tmp_path: Path) -> None:
    def full(event: Event) -> None:
        raise TrainerError("can't write: no space left on device")

    sink = RecordedSink(full, None, Attempt(RunPaths(tmp_path), 1, 0.0))
    with pytest.raises(TrainerError, match="no space left"):
        sink(EndEvent("done", 0))
    assert sink.ended is None  # so that the worker says it to who started it, and ends with 2

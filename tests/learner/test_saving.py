"""Checkpoints written aside: complete or not there, whatever the disk does, and the loop waits for a copy only."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import State
from trainer.learner import Hook, Learner, Moment, Training
from trainer.learner.checkpoints import (
    CheckpointKeeper,
    Keep,
    checkpoint_folder,
    pointed,
    read_checkpoint,
    steps_in,
    write_checkpoint,
)
from trainer.learner.checkpoints.background import Background
from trainer.learner.checkpoints.disk import Disk
from trainer.learner.checkpoints.format import point
from trainer.learner.checkpoints.staging import Staging
from trainer.rundir import Event, create_run


class Killed(BaseException):
    """The process ends here."""


class Scripted(Disk):
    """Counts what is asked of the disk; at the `at`-th it does what `then` says, before or (of writes) half done."""

    def __init__(self, at: int = -1, then: Callable[[], None] = lambda: None) -> None:
        self.at, self.then, self.count, self.names = at, then, 0, list[str]()

    def _asked(self, name: str) -> bool:
        self.count += 1
        self.names.append(name)
        return self.count == self.at

    def put(self, descriptor: int, piece: bytes | memoryview) -> None:
        if self._asked("write"):
            os.write(descriptor, memoryview(piece)[: len(piece) // 2])
            self.then()
        super().put(descriptor, piece)

    def flush(self, descriptor: int) -> None:
        if self._asked("flush"):
            self.then()
        super().flush(descriptor)

    def make_folder(self, path: Path) -> None:
        if self._asked("folder"):
            self.then()
        super().make_folder(path)

    def rename(self, path: Path, target: Path) -> None:
        if self._asked("rename"):
            self.then()
        super().rename(path, target)

    def remove_file(self, path: Path) -> None:
        if self._asked("remove"):
            self.then()
        super().remove_file(path)

    def remove_folder(self, path: Path) -> None:
        if self._asked("remove folder") and path.exists():
            next(path.iterdir(), path / "none").unlink(missing_ok=True)  # half of it
            self.then()
        super().remove_folder(path)


def groups(number: float) -> dict[str, dict[str, State]]:
    return {"model": {"net.weight": State(np.full((3, 4), number), "net.weight", engine.float32)}}


def saved_by(folder: Path, disk: Disk, *steps: int, keep: Keep | None = None) -> list[Event]:
    events: list[Event] = []
    keeper = CheckpointKeeper(folder, events.append, keep or Keep(1), disk=disk)
    for step in steps:
        keeper.save(step, keeper.copy(groups(step)), {"step": step})
        keeper.wait()
    return events


def kill() -> None:
    raise Killed


def refuse() -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("again", [20, 30], ids=["replacing a step", "a further step"])
def test_killed_at_any_operation_the_latest_is_whole(tmp_path: Path, again: int) -> None:
    """Of the former checkpoint or of the new one, and the next attempt goes on from there."""
    at = 0
    while True:
        at += 1
        folder = tmp_path / f"{at}"
        saved_by(folder, Disk(), 10, 20)
        disk = Scripted(at, kill)
        with contextlib.suppress(Killed):
            saved_by(folder, disk, again)
        keeper = CheckpointKeeper(folder, lambda event: None, Keep(1))  # as the next attempt does, before it reads
        found = read_checkpoint(checkpoint_folder(folder))
        step = found.state["step"]
        assert step in (20, again)
        np.testing.assert_array_equal(found.arrays["model"]["net.weight"].values, np.full((3, 4), step))
        keeper.save(40, keeper.copy(groups(40)), {"step": 40})
        keeper.wait()
        assert read_checkpoint(checkpoint_folder(folder)).state["step"] == 40
        assert not [name for name in os.listdir(folder) if name.startswith(".step")]
        if disk.count < at:
            break
    assert at > 10


def test_a_checkpoint_that_failed_is_not_counted_among_those_that_are_kept(tmp_path: Path) -> None:
    disk = Scripted(at=1)
    keeper = CheckpointKeeper(tmp_path, lambda event: None, Keep(2), disk=disk)
    for step in (10, 20, 30, 40):
        disk.count, disk.then = 0, refuse if step == 30 else (lambda: None)
        keeper.save(step, keeper.copy(groups(step)), {})
        if step == 30:
            with pytest.raises(TrainerError, match="no space left"):
                keeper.wait()
        else:
            keeper.wait()
    assert steps_in(tmp_path) == [20, 40]


def test_the_best_and_each_so_manyth_are_kept_across_attempts(tmp_path: Path) -> None:
    keep = Keep(1, best=2, mode="min", every=4)
    values = {10: 0.5, 20: 0.2, 30: 0.9, 40: 0.8, 50: 0.3, 60: None, 70: 0.25, 80: None, 90: None}
    for step, value in values.items():
        keeper = CheckpointKeeper(tmp_path, lambda event: None, keep)  # each time a new attempt
        keeper.save(step, keeper.copy(groups(step)), {}, value=value)
        keeper.wait()
    assert steps_in(tmp_path) == [20, 40, 70, 80, 90] and keeper.best_step == 20
    assert keeper.is_worth_saving(0.24, 100) and not keeper.is_worth_saving(0.25, 100)
    assert keeper.is_worth_saving(0.3, 50)  # the best of later steps, by an attempt that got further, don't count


def test_a_checkpoint_that_is_written_counts_once_among_the_best(tmp_path: Path) -> None:
    keeper = CheckpointKeeper(tmp_path, lambda event: None, Keep(1, best=2, mode="min"))
    keeper.save(10, keeper.copy(groups(10)), {}, value=0.2)
    keeper.wait()
    assert keeper.is_worth_saving(0.3, 20)  # there is one, and two are kept


def test_a_checkpoint_that_was_written_but_not_pointed_at_is_when_it_is_gone_on_from(tmp_path: Path) -> None:
    """Its process was killed before it could name it the best, and delete what it supersedes."""
    keep = Keep(1, best=1, mode="min")
    for step, value in ((10, 0.5), (20, 0.4)):
        write_checkpoint(tmp_path, step, {}, {}, number=step // 10, value=value)
    point(tmp_path, "best", 10)
    keeper = CheckpointKeeper(tmp_path, lambda event: None, keep)
    keeper.went_on_from(tmp_path / "step-20")
    assert pointed(tmp_path, "latest") == pointed(tmp_path, "best") == tmp_path / "step-20"
    assert sorted(os.listdir(tmp_path)) == ["best", "latest", "step-20"]


def test_an_old_checkpoint_that_cannot_be_deleted_is_a_warning_and_is_tried_again(tmp_path: Path) -> None:
    class Keeps(Disk):
        refuses = True

        def remove_empty_folder(self, path: Path) -> None:
            if self.refuses:
                raise OSError(30, "Read-only file system")
            super().remove_empty_folder(path)

    events, disk = list[Event](), Keeps()
    keeper = CheckpointKeeper(tmp_path, events.append, Keep(1), disk=disk)
    for step in (10, 20, 30):
        disk.refuses = step == 20
        keeper.save(step, keeper.copy(groups(step)), {})
        keeper.wait()
    said = [event.message for event in events if event.kind == "warning"]  # type: ignore[attr-defined]
    assert len(said) == 1 and "step-10" in said[0] and "read-only" in said[0]
    assert sorted(os.listdir(tmp_path)) == ["latest", "step-30"]


def test_the_loop_goes_on_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    may_write, events = threading.Event(), list[Event]()

    class Waits(Disk):
        def flush(self, descriptor: int) -> None:
            assert may_write.wait(60)
            super().flush(descriptor)

    keeper = CheckpointKeeper(tmp_path, events.append, Keep(2), disk=Waits())
    states = groups(1)
    keeper.save(10, keeper.copy(states), {})
    states["model"]["net.weight"].set_value(np.full((3, 4), 2.0))  # training goes on
    assert not keeper.finished() and not events and steps_in(tmp_path) == []
    may_write.set()
    keeper.wait()
    assert [event.path for event in keeper.finished()] == ["checkpoints/step-10"] and keeper.finished() == []
    np.testing.assert_array_equal(
        read_checkpoint(tmp_path / "step-10").arrays["model"]["net.weight"].values, np.ones((3, 4))
    )
    (event,) = events
    assert event.stall_ms >= event.copy_ms >= 0 and event.write_s > 0 and event.cpu_s >= 0  # type: ignore[attr-defined]


def test_copies_are_of_logical_layout_whatever_the_states_is() -> None:
    values = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    state = State(values, "w", engine.float32)
    state.storage.lay_out(type(state.storage.layout)((0, 2, 3, 1)))
    count = State(np.asarray(5), "n", engine.int64)
    staging = Staging()
    arrays = staging.take({"model": {"w": state}, "training": {"n": count}})()
    state.set_value(-values)
    np.testing.assert_array_equal(arrays["model"]["w"].values, values)
    assert arrays["training"]["n"].values.shape == () and arrays["training"]["n"].values == 5


def test_what_a_job_was_ended_by_is_raised_by_the_next_call() -> None:
    background = Background[int]("test")
    background.start(lambda: 1)
    background.start(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        background.wait()
    assert background.finished() == [1]
    background.start(lambda: 2)
    background.wait()
    assert background.finished() == [2]


# --- in a run ---------------------------------------------------------------------------------------------------------


class Fails(Hook):
    """Takes the disk away for the second checkpoint."""

    is_inline = True

    def on_start(self, training: Training, moment: Moment) -> None:
        keeper = training.saving.keeper
        assert keeper is not None
        keeper._disk = self.disk = Scripted()

    def before_step(self, training: Training, moment: Moment) -> None:
        training.saving.finish()
        self.disk.at, self.disk.then = (self.disk.count + 4, refuse) if moment.step == 7 else (-1, refuse)


def test_a_run_goes_on_without_a_checkpoint_or_stops_as_configured(blobs: Any, config: Any, tmp_path: Any) -> None:
    for on_error, status in (("warn", "done"), ("stop", "failed")):
        events: list[Event] = []
        settings = config(checkpoint={"on_error": on_error, "keep_last": 9}, autotune={"mode": "off"})
        paths = create_run(tmp_path, on_error)
        outcome = Learner(blobs, settings, paths=paths, hooks=[Fails()], sink=events.append).run()
        assert outcome.status == status
        assert steps_in(paths.checkpoints) == ([4, 12, 16] if on_error == "warn" else [4])
        said = [event.message for event in events if event.kind == "warning"]  # type: ignore[attr-defined]
        assert (len(said) == 1 and "no space left" in said[0]) if on_error == "warn" else not said
        if on_error == "stop":
            with pytest.raises(TrainerError, match="no space left"):
                outcome.check()


def test_checkpoints_are_due_by_minutes_and_several_of_the_best_are_kept(
    blobs: Any, config: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer.learner.hooks import checkpointing

    seconds = iter(range(0, 100_000, 25))  # each look at the clock is 25 s later
    made = checkpointing.SaveCheckpoints.for_config
    monkeypatch.setattr(
        checkpointing.SaveCheckpoints,
        "for_config",
        classmethod(lambda cls, config: cls(config.checkpoint, lambda: float(next(seconds)))),
    )
    assert made is not None
    settings = config(checkpoint={"every_minutes": 2, "keep_last": 9}, autotune={"mode": "off"})
    paths = create_run(tmp_path, "minutes")
    Learner(blobs, settings, paths=paths).run().check()
    assert steps_in(paths.checkpoints) == [5, 10, 15, 16]
    best = {"best": {"metric": "valid/loss", "mode": "min", "keep": 3}, "every_steps": 50, "keep_last": 1}
    settings = config(checkpoint=best, validate={"every_steps": 1}, autotune={"mode": "off"})
    paths, events = create_run(tmp_path, "best"), list[Event]()
    Learner(blobs, settings, paths=paths, sink=events.append).run().check()
    losses = {
        event.step: event.values["loss"]  # type: ignore[attr-defined]
        for event in events
        if event.kind == "metric" and event.split == "valid"  # type: ignore[attr-defined]
    }
    assert steps_in(paths.checkpoints) == sorted({*sorted(losses, key=losses.__getitem__)[:3], 16})

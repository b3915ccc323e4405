"""Training on a device that computes later: the same bits, metrics and checkpoints as where everything is at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.program.interpreter import Interpreter
from tests.engine.targets.toy import ToyDevice
from trainer import engine
from trainer.configs import load
from trainer.engine import Tensor
from trainer.engine.targets import Device
from trainer.learner import Hook, Learner, Moment, Training, loop
from trainer.learner.checkpoints import checkpoint_folder, first_difference, read_checkpoint, steps_in
from trainer.rundir import (
    CheckpointEvent,
    EndEvent,
    EventWriter,
    MetricEvent,
    Request,
    ResumedEvent,
    RunPaths,
    WarningEvent,
    create_run,
    read_events,
)

SETTINGS: dict[str, Any] = {
    "data": {"batch_size": 10, "valid_batch_size": 8},
    "train": {"epochs": 2, "accumulate": 2, "log_every_steps": 1, "on_nan": "skip", "ema": {}},
    "validate": {"every_steps": 4, "worst_items": 2},
    "checkpoint": {"every_steps": 3, "keep_every": 1, "best": {"metric": "valid/loss", "mode": "min"}},
}

Compute = Callable[[Device], None]


@pytest.fixture
def compute_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compute]:
    """Makes trainings compute on a device of the test."""
    devices: list[Device] = []

    def choose(device: Device) -> None:
        devices.append(device)
        monkeypatch.setattr(loop, "device_for", lambda config, group: device)

    yield choose
    for device in devices:
        if isinstance(device, ToyDevice):
            device.memory.close()


def attempt(
    task: Any, config: Any, paths: RunPaths, *hooks: Hook, options: Any = None, requests: Any = None, number: int = 1
) -> None:
    resume = paths.root if number > 1 and steps_in(paths.checkpoints) else None
    with EventWriter(paths.events, attempt=number, process_start=0) as sink:
        further = {} if requests is None else {"requests": requests}
        Learner(
            task, config, options, paths=paths, sink=sink, attempt=number, resume=resume, hooks=hooks, **further
        ).run()


def told(paths: RunPaths, kind: type[Any]) -> list[Any]:
    return [record.event for record in read_events(paths.events) if isinstance(record.event, kind)]


def metrics(paths: RunPaths) -> list[tuple[Any, ...]]:
    return [
        (event.step, event.epoch, event.split, event.final,
         {name: value for name, value in event.values.items() if name != "samples_per_second"})
        for event in told(paths, MetricEvent)
    ]  # fmt: skip


def assert_same(paths: RunPaths, other: RunPaths) -> None:
    assert metrics(paths) == metrics(other)
    assert steps_in(paths.checkpoints) == steps_in(other.checkpoints)
    for step in steps_in(paths.checkpoints):
        one, two = (read_checkpoint(each.checkpoints / f"step-{step}") for each in (paths, other))
        assert first_difference(one, two) is None


class Order(Hook):
    """Notes when steps are submitted, and when logs and checkpoints follow."""

    is_inline = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def after_step(self, training: Training, moment: Moment) -> None:
        self.seen.append(("step", moment.step))

    def after_log(self, training: Training, moment: Moment) -> None:
        self.seen.append(("log", moment.step))


def test_metrics_and_checkpoints_are_those_of_a_synchronous_device(
    blobs: Any, config: Any, tmp_path: Path, compute_on: Compute
) -> None:
    compute_on(Interpreter(has_prologues=True))
    at_once = create_run(tmp_path, "at-once")
    attempt(blobs, config(**SETTINGS), at_once)
    compute_on(ToyDevice())
    later = create_run(tmp_path, "later")
    attempt(blobs, config(**SETTINGS), later)
    assert [event.status for event in told(later, EndEvent)] == ["done"]
    assert len(steps_in(later.checkpoints)) > 1
    assert_same(later, at_once)


def test_logs_come_one_step_late_and_nothing_waits_for_the_step_under_way(
    blobs: Any, config: Any, tmp_path: Path, compute_on: Compute
) -> None:
    class Waits(Hook):
        is_inline = True

        def before_step(self, training: Training, moment: Moment) -> None:
            assert toy.memory.waits == 0

    toy = ToyDevice()
    compute_on(toy)
    order, settings = Order(), {**SETTINGS, "train": {"steps": 3, "log_every_steps": 1}, "validate": {"every_steps": 9}}
    attempt(blobs, config(**settings), create_run(tmp_path, "run"), order, Waits())
    assert order.seen == [("step", 1), ("log", 1), ("step", 2), ("log", 2), ("log", 3), ("step", 3)]  # validated
    compute_on(Interpreter(has_prologues=True))
    at_once = Order()
    attempt(blobs, config(**settings), create_run(tmp_path, "at-once"), at_once)
    assert at_once.seen == [("log", 1), ("step", 1), ("log", 2), ("step", 2), ("log", 3), ("step", 3)]


def test_what_training_waits_for_is_not_late(blobs: Any, config: Any, tmp_path: Path, compute_on: Compute) -> None:
    train = {**SETTINGS["train"], "epochs": 6, "spike": {"window": 3, "factor": 1.01}}
    settings = {**SETTINGS, "train": train}
    compute_on(Interpreter(has_prologues=True))
    at_once = create_run(tmp_path, "at-once")
    attempt(blobs, config(**settings), at_once)
    compute_on(ToyDevice())
    later = create_run(tmp_path, "later")
    attempt(blobs, config(**settings), later)
    assert len(told(at_once, WarningEvent)) == len(told(later, WarningEvent)) > 0
    assert_same(later, at_once)


@pytest.mark.parametrize("look", [3, 7, 10])
def test_stopped_and_resumed_it_ends_with_the_same_bits(
    blobs: Any, config: Any, tmp_path: Path, compute_on: Compute, look: int
) -> None:
    compute_on(ToyDevice())
    whole, stopped = create_run(tmp_path, "whole"), create_run(tmp_path, "stopped")
    attempt(blobs, config(**SETTINGS), whole)
    polls = iter(range(1, 1000))

    def requests() -> Sequence[Request]:
        return [Request("1", "stop", {})] if next(polls) == look else []

    attempt(blobs, config(**SETTINGS), stopped, requests=requests)
    attempt(blobs, config(**SETTINGS), stopped, number=2)
    assert told(stopped, EndEvent)[-1].status == "done" and next(polls) <= look + 1
    assert look == 3 or told(stopped, ResumedEvent)
    one, other = (read_checkpoint(checkpoint_folder(each.root)) for each in (stopped, whole))
    assert first_difference(one, other) is None


def test_a_loss_that_is_not_finite_is_found_one_step_late_and_never_saved(
    blobs: Any, config: Any, tmp_path: Path, compute_on: Compute
) -> None:
    class Breaks(blobs):  # type: ignore[misc]
        def measured(self, loss: Tensor, logits: Tensor, batch: dict[str, Tensor]) -> Any:
            is_third = (self.optimizer.step_count == 3).astype(engine.float32)
            return super().measured(loss / (1 - is_third), logits, batch)

    settings = {**SETTINGS, "train": {"epochs": 2, "on_nan": "stop", "log_every_steps": 1}}
    settings["checkpoint"] = {"every_steps": 1, "keep_every": 1}
    compute_on(ToyDevice())
    paths = create_run(tmp_path, "run")
    attempt(Breaks, config(**settings), paths)
    (end,) = told(paths, EndEvent)
    assert end.status == "failed" and end.reason is not None and "loss" in end.reason and "step 3" in end.reason
    assert [event.step for event in told(paths, CheckpointEvent)] == [1, 2] == steps_in(paths.checkpoints)


@pytest.mark.full
def test_twenty_steps_of_digits(tmp_path: Path, compute_on: Compute) -> None:
    overrides = ["train.epochs=null", "train.steps=20", "data.batch_size=8", "schedule.warmup_steps=5",
                 "train.log_every_steps=5", "validate.batches=1", "data.valid_batch_size=20",
                 "checkpoint.every_steps=7"]  # fmt: skip
    loaded = load("digits", overrides)
    task = loaded.task.import_module().Digits

    class Short(task):  # type: ignore[misc]
        """Without the test split, which NumPy would be long about."""

        def data(self) -> Any:
            return replace(super().data(), test=None)

    runs = []
    for device in (Interpreter(has_prologues=True), ToyDevice()):
        compute_on(device)
        runs.append(create_run(tmp_path, device.name))
        attempt(Short, loaded.config, runs[-1], options=loaded.options)
    assert [event.status for event in told(runs[1], EndEvent)] == ["done"]
    losses = [event.values["loss"] for event in told(runs[1], MetricEvent) if event.split == "train"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0]
    assert_same(runs[1], runs[0])

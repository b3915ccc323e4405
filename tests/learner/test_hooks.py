"""Moments of a training: their order, custom hooks aside and inline, limits, early stopping, guards."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.configs import EarlyStoppingConfig
from trainer.engine import nn
from trainer.learner import Hook, Learner, Moment, Training, TrainingFailure, TrainingHandle, Verdict
from trainer.learner.checkpoints import steps_in
from trainer.learner.hooks.early_stopping import Patience
from trainer.learner.hooks.handle import MOMENTS
from trainer.learner.hooks.hook import is_due
from trainer.learner.hooks.limits import TimeLimit
from trainer.learner.hooks.watchdog import Watchdog
from trainer.rundir import (
    CheckpointEvent,
    EventWriter,
    MetricEvent,
    PhaseEvent,
    RequestEvent,
    ResumedEvent,
    WarningEvent,
    create_run,
    open_run,
)


def of(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


class Notes(Hook):
    """Writes down every moment."""

    is_inline = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.moments: list[Moment] = []


def _noting(name: str) -> Any:
    def note(self: Notes, training: Training, moment: Moment) -> None:
        self.seen.append((name, moment.step))
        self.moments.append(moment)

    return note


for _name in MOMENTS:
    setattr(Notes, _name, _noting(_name))


def test_the_moments_come_in_their_order(blobs: Any, config: Any, tmp_path: Any) -> None:
    notes = Notes()
    settings = config(train={"steps": 2, "log_every_steps": 1})
    Learner(blobs, settings, paths=create_run(tmp_path, "blobs"), hooks=[notes]).run().check()
    assert notes.seen == [
        ("on_start", 0), ("before_step", 0), ("after_log", 1), ("after_step", 1), ("before_step", 1), ("after_log", 2),
        ("before_validation", 2), ("after_validation", 2), ("after_step", 2), ("after_checkpoint", 2), ("on_end", 2),
    ]  # fmt: skip
    validated = notes.moments[7]
    assert set(validated.measured) == {"valid/loss", "valid/accuracy"} and validated.epoch == 0.5
    assert validated.metrics.keys() >= {"train/loss", "valid/loss"}
    assert notes.moments[9].checkpoint == "checkpoints/step-2"


def test_an_error_is_a_moment_too(blobs: Any, config: Any) -> None:
    class Breaks(Notes):
        def before_step(self, training: Training, moment: Moment) -> None:
            raise RuntimeError("broken")

    notes = Breaks()
    outcome = Learner(blobs, config(), hooks=[notes]).run()
    assert outcome.reason == "RuntimeError: broken"
    assert notes.seen == [("on_start", 0), ("on_error", 0)] and isinstance(notes.moments[-1].error, RuntimeError)


def test_a_hook_of_ones_own_never_keeps_the_loop_waiting(blobs: Any, config: Any) -> None:
    """It is held up until training has passed five further steps, and still hears every moment in order."""
    go_on = threading.Event()

    class Slow(Hook):
        def __init__(self) -> None:
            self.steps: list[int] = []

        def after_step(self, training: Training, moment: Moment) -> None:
            assert go_on.wait(30)
            self.steps.append(moment.step)

    class Release(Hook):
        is_inline = True

        def after_step(self, training: Training, moment: Moment) -> None:
            if moment.step == 6:
                go_on.set()

    slow = Slow()
    Learner(blobs, config(train={"steps": 8}), hooks=[slow, Release()]).run().check()
    assert slow.steps == list(range(1, 9))


def test_a_hook_that_fails_aside_is_told_of_and_left_out(blobs: Any, config: Any) -> None:
    class Fails(Hook):
        def after_log(self, training: Training, moment: Moment) -> None:
            raise ValueError("no such display")

    events: list[Any] = []
    outcome = Learner(blobs, config(train={"steps": 2}), hooks=[Fails()], sink=events.append).run()
    assert outcome.status == "done"
    (warning,) = of(events, WarningEvent)
    assert "no such display" in warning.message and warning.where == "Fails.after_log"


def test_a_hook_may_ask_for_what_a_user_may(blobs: Any, config: Any, tmp_path: Any) -> None:
    class Asks(Hook):
        is_inline = True

        def after_step(self, training: Training, moment: Moment) -> None:
            if moment.step == 2:
                assert training.latest()["loss"] > 0
                training.request("checkpoint")
            if moment.step == 3:
                training.request("stop")

    events: list[Any] = []
    paths = create_run(tmp_path, "blobs")
    outcome = Learner(blobs, config(), paths=paths, hooks=[Asks()], sink=events.append).run()
    assert (outcome.status, outcome.step) == ("stopped", 3)
    assert [(event.step, event.reasons) for event in of(events, CheckpointEvent)] == [
        (2, ("latest", "requested")), (3, ("latest", "stopped")),
    ]  # fmt: skip
    assert [(event.what, event.state) for event in of(events, RequestEvent)] == [
        ("checkpoint", "received"), ("checkpoint", "done"), ("stop", "received"), ("stop", "done"),
    ]  # fmt: skip


def test_a_hook_is_named_in_the_config(blobs: Any, config: Any, tmp_path: Any) -> None:
    (tmp_path / "tell.py").write_text(
        "from trainer.learner import Hook\n"
        "class Tell(Hook):\n"
        "    def __init__(self, file):\n"
        "        self.file = file\n"
        "    def after_validation(self, training, moment):\n"
        "        open(self.file, 'a').write(f'{moment.step} ')\n"
    )
    told = tmp_path / "told"
    section = {"name": f"{tmp_path / 'tell.py'}:Tell", "options": {"file": str(told)}}
    Learner(blobs, config(hooks=(section,), train={"epochs": 2})).run().check()
    assert told.read_text() == "4 8 "
    outcome = Learner(blobs, config(hooks=({**section, "options": {}},))).run()
    assert outcome.exit_code == 2 and "can't be created" in str(outcome.reason)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, [4, 8, 12, 16]),
        ({"every_epochs": 3}, [12, 16]),
        ({"every_steps": 5}, [5, 10, 15, 16]),
    ],
)
def test_validation_and_checkpoints_are_due_by_epochs_or_steps(
    blobs: Any, config: Any, tmp_path: Any, settings: dict[str, int], steps: list[int]
) -> None:
    events: list[Any] = []
    sections = {"validate": settings, "checkpoint": {**settings, "keep_last": 9}}
    Learner(blobs, config(**sections), paths=create_run(tmp_path, "b"), sink=events.append).run().check()
    assert [event.step for event in of(events, MetricEvent) if event.split == "valid"] == steps
    assert [event.step for event in of(events, CheckpointEvent)] == steps


def test_what_is_due_is_a_function_of_the_step() -> None:
    assert [is_due(s, every_steps=None, every_epochs=None, steps_per_epoch=3) for s in (2, 3, 6)] == [False, True, True]
    assert is_due(6, every_steps=None, every_epochs=2, steps_per_epoch=3) and not is_due(
        3, every_steps=None, every_epochs=2, steps_per_epoch=3
    )


def test_validation_may_be_limited_to_some_batches(blobs: Any, config: Any) -> None:
    events: list[Any] = []
    data = {"batch_size": 5}
    Learner(blobs, config(validate={"batches": 3}, train={"steps": 1}, data=data), sink=events.append).run().check()
    totals = {event.name: event.total for event in of(events, PhaseEvent) if event.state == "finished"}
    assert (totals["validate"], totals["evaluate"]) == (3, 2)  # of 4 batches; the test split is never limited


def test_test_splits_may_have_names(blobs: Any, config: Any) -> None:
    class Several(blobs):  # type: ignore[misc]
        def data(self) -> Any:
            splits = super().data()
            return type(splits)(splits.train, splits.valid, {"near": splits.test, "far": splits.valid})

    outcome = Learner(Several, config()).run().check()
    assert {"test/near/loss", "test/far/accuracy"} <= set(outcome.metrics)


def test_early_stopping_waits_for_its_patience_and_ends_as_done(blobs: Any, config: Any, tmp_path: Any) -> None:
    class Unlearns(blobs):  # type: ignore[misc]
        def valid_step(self, batch: Any) -> Any:
            metrics = super().valid_step(batch)
            metrics["steps"] = metrics["loss"].__class__(self.optimizer.step_count.astype(engine.float32))
            return metrics

    stopping = {"metric": "valid/steps", "mode": "min", "patience": 1, "warmup": 1}
    paths, events = create_run(tmp_path, "b"), []
    settings = config(train={"epochs": 9}, early_stopping=stopping)
    outcome = Learner(Unlearns, settings, paths=paths, sink=events.append).run().check()
    # the first validation is the warm-up, the second is the best, two more are not better
    assert (outcome.status, outcome.step) == ("done", 16)
    assert outcome.reason == "valid/steps has not improved on 8 for 2 validations"
    assert "test/loss" in outcome.metrics and steps_in(paths.checkpoints)[-1] == 16
    again = Learner(Unlearns, settings, paths=paths, attempt=2, resume=paths.root).run().check()
    assert again.step == 16
    outcome = Learner(blobs, config(early_stopping={**stopping, "metric": "valid/none"})).run()
    assert outcome.exit_code == 2 and "is not computed" in str(outcome.reason)


def test_patience_counts_measurements_without_an_improvement() -> None:
    config = EarlyStoppingConfig(metric="valid/loss", mode="min", min_change=0.1)
    memory = Patience()
    waits = []
    for value in (1.0, 0.95, 0.85, float("nan"), 0.2, 0.3):
        memory = memory.after(value, config)
        waits.append(memory.waited)
    assert waits == [0, 1, 0, 1, 0, 1] and memory.best == 0.2 and memory.measured == 6


def test_training_may_end_by_the_clock(blobs: Any, config: Any) -> None:
    now = [0.0]

    class Ticks(Hook):
        is_inline = True

        def before_step(self, training: Training, moment: Moment) -> None:
            now[0] += 20.0

    settings = config(train={"minutes": 3.0}, schedule={"name": "constant"})
    learner = Learner(blobs, settings, hooks=[Ticks(), TimeLimit(1.0, clock=lambda: now[0])])
    outcome = learner.run().check()
    assert (outcome.step, outcome.reason) == (
        3,
        "the limit of 1 minutes is reached",
    ) and "valid/loss" in outcome.metrics


def bad_at(*steps: int) -> Any:
    """A task whose loss is not finite when the optimizer is at these steps."""

    def make(blobs: Any) -> Any:
        class Diverges(blobs):  # type: ignore[misc]
            def build(self) -> None:
                super().build()
                self.tries = engine.State(np.zeros((), np.int64), "tries")

            def train_step(self, batch: Any) -> Any:
                logits = self.net(batch["point"])
                loss = nn.cross_entropy(logits, batch["label"], sample_weight=batch["weight"])
                is_bad = engine.asarray(False)
                for step in steps:
                    is_bad = engine.logical_or(is_bad, self.tries == step)
                loss = loss * engine.where(is_bad, float("nan"), 1.0)
                self.tries.assign(self.tries + 1)
                self.optimizer.minimize(loss)
                return self.measured(loss, logits, batch)

        return Diverges

    return make


def test_steps_that_are_not_finite_may_be_left_out(blobs: Any, config: Any) -> None:
    events: list[Any] = []
    settings = config(train={"epochs": 2, "on_nan": "skip", "log_every_steps": 2})
    learner = Learner(bad_at(2, 5)(blobs), settings, sink=events.append)
    outcome = learner.run().check()
    assert outcome.step == 8 and np.isfinite(outcome.metrics["train/loss"])
    assert [event.message.split(" because")[0] for event in of(events, WarningEvent)] == ["1 steps were skipped"] * 2
    assert all(np.isfinite(value).all() for value in learner.task.net.state_dict().values())
    outcome = Learner(bad_at(1, 2, 3)(blobs), config(train={"epochs": 2, "on_nan": "skip", "nan_limit": 2})).run()
    assert outcome.exit_code == 1 and "3 steps had gradients that were not finite" in str(outcome.reason)


def test_leaving_out_changes_no_bits_where_nothing_is_wrong(blobs: Any, config: Any) -> None:
    weights = []
    for action in ("stop", "skip"):
        learner = Learner(blobs, config(train={"epochs": 2, "on_nan": action}))
        learner.run().check()
        weights.append(learner.task.net.state_dict())
    for name, values in weights[0].items():
        np.testing.assert_array_equal(weights[1][name], values, err_msg=name)


def test_a_rollback_goes_on_from_the_last_checkpoint_with_a_lower_rate(blobs: Any, config: Any, tmp_path: Any) -> None:
    paths = create_run(tmp_path, "b")
    events: list[Any] = []
    writer = EventWriter(paths.events, attempt=1, process_start=0)

    def sink(event: Any) -> None:
        events.append(event)
        writer(event)

    class Task(blobs):  # type: ignore[misc]
        def build(self) -> None:
            super().build()
            self.tries = [engine.State(np.zeros((), np.int64), "tries")]

        def train_step(self, batch: Any) -> Any:
            metrics = super().train_step(batch)
            (tries,) = self.tries
            metrics["loss"].numerator = engine.where(tries == 5, float("nan"), metrics["loss"].numerator)
            tries.assign(tries + 1)
            return metrics

    settings = config(train={"epochs": 2, "on_nan": "rollback", "log_every_steps": 1}, schedule={"name": "constant"})
    outcome = Learner(Task, settings, paths=paths, sink=sink).run().check()
    assert outcome.step == 8
    assert of(events, ResumedEvent) == [ResumedEvent(4, "checkpoints/step-4")]
    assert "not finite at step 6" in of(events, WarningEvent)[0].message
    rate = open_run(paths.root).metric("train", "learning_rate")
    assert list(rate.step) == [1, 2, 3, 4, 5, 6, 7, 8]
    np.testing.assert_allclose(rate.value, [0.05] * 4 + [0.025] * 4)
    kept = [record.event.step for record in open_run(paths.root).events() if record.event.kind == "metric"
            and record.event.split == "train"]  # fmt: skip
    assert kept == [1, 2, 3, 4, 5, 6, 7, 8]


def test_without_a_checkpoint_there_is_nothing_to_roll_back_to(blobs: Any, config: Any) -> None:
    outcome = Learner(bad_at(1)(blobs), config(train={"epochs": 2, "on_nan": "rollback"})).run()
    assert outcome.exit_code == 1 and "not finite at step 2" in str(outcome.reason)


def test_a_hook_may_send_the_training_back_and_those_after_it_are_left_out(
    blobs: Any, config: Any, tmp_path: Any
) -> None:
    events: list[Any] = []
    told: list[int] = []

    class Judge(Hook):
        order, is_inline = 110, True
        is_done = False

        def after_step(self, training: TrainingHandle, moment: Moment) -> Verdict | None:
            if moment.step != 6 or self.is_done:
                return None
            self.is_done = True
            return Verdict(TrainingFailure("too wild"), goes_back=True)

    class Last(Hook):
        order, is_inline = 120, True

        def after_step(self, training: TrainingHandle, moment: Moment) -> None:
            told.append(moment.step)

    paths = create_run(tmp_path, "b")
    hooks = [Judge(), Last()]
    outcome = Learner(blobs, config(train={"epochs": 2}), paths=paths, sink=events.append, hooks=hooks).run().check()
    assert outcome.step == 8 and of(events, ResumedEvent) == [ResumedEvent(4, "checkpoints/step-4")]
    assert of(events, WarningEvent)[0].message == "too wild The run returns to step 4."
    assert told == [1, 2, 3, 4, 5, 5, 6, 7, 8]


@pytest.mark.parametrize("moment", ["on_start", "before_step", "before_validation", "after_validation", "after_log"])
def test_a_verdict_of_any_moment_ends_the_run(blobs: Any, config: Any, moment: str) -> None:
    def judge(self: Hook, training: TrainingHandle, now: Moment) -> Verdict:
        return Verdict(TrainingFailure(f"at {moment}"), goes_back=True)

    hook = type("Judge", (Hook,), {"is_inline": True, moment: judge})()
    outcome = Learner(blobs, config(train={"epochs": 2}), hooks=[hook]).run()
    assert (outcome.exit_code, outcome.reason) == (1, f"at {moment}")


@pytest.mark.parametrize(("on_nan", "status"), [("stop", "failed"), ("rollback", "stopped")])
def test_a_stop_after_a_bad_step_leaves_the_good_checkpoint(
    blobs: Any, config: Any, tmp_path: Any, on_nan: str, status: str
) -> None:
    class Stops(Hook):
        is_inline = True

        def after_step(self, training: TrainingHandle, moment: Moment) -> None:
            if moment.step == 6:
                training.request("stop")

    paths = create_run(tmp_path, "b")
    settings = config(train={"epochs": 2, "on_nan": on_nan, "log_every_steps": 100})
    outcome = Learner(bad_at(5)(blobs), settings, paths=paths, hooks=[Stops()]).run()
    assert outcome.status == status
    assert [folder.name for folder in paths.checkpoints.glob("step-*")] == ["step-4"]


@pytest.mark.parametrize("action", ["warn", "stop"])
def test_a_loss_that_jumps_up_is_told_of_or_ends_the_run(blobs: Any, config: Any, action: str) -> None:
    class Jumps(blobs):  # type: ignore[misc]
        def train_step(self, batch: Any) -> Any:
            metrics = super().train_step(batch)
            is_bad = self.optimizer.step_count == 7
            metrics["loss"].numerator = metrics["loss"].numerator * engine.where(is_bad, 100.0, 1.0)
            return metrics

    events: list[Any] = []
    train = {"epochs": 2, "log_every_steps": 1, "spike": {"window": 3, "action": action}}
    outcome = Learner(Jumps, config(train=train), sink=events.append).run()
    assert (outcome.status, outcome.step) == (("done", 8) if action == "warn" else ("failed", 7))
    said = of(events, WarningEvent)[0].message if action == "warn" else str(outcome.reason)
    assert "train/loss jumped up at step 7" in said


def test_the_watchdog_says_where_a_silent_run_hangs(blobs: Any, config: Any) -> None:
    """The step waits until the watchdog has spoken."""
    spoken = threading.Event()
    events: list[Any] = []

    def sink(event: Any) -> None:
        events.append(event)
        if isinstance(event, WarningEvent) and "spoken.wait(30)" in event.message:  # and not of a slow first step
            spoken.set()

    class Hangs(Hook):
        is_inline = True

        def before_step(self, training: Training, moment: Moment) -> None:
            if moment.step == 1:
                assert spoken.wait(30)

    settings = config(train={"steps": 2, "watchdog_minutes": None})
    outcome = Learner(blobs, settings, sink=sink, hooks=[Hangs(), Watchdog(0.3)]).run()
    assert outcome.status == "done"
    assert spoken.is_set() and all("no progress" in event.message for event in of(events, WarningEvent))


def test_averaged_weights_are_evaluated_by_themselves_and_saved(blobs: Any, config: Any, tmp_path: Any) -> None:
    paths = create_run(tmp_path, "b")
    history: list[dict[str, np.ndarray]] = []

    class Watch(Hook):
        is_inline = True

        def on_start(self, training: Training, moment: Moment) -> None:
            history.append(training.task.net.state_dict())  # type: ignore[attr-defined]

        after_step = on_start

    settings = config(train={"epochs": 2, "ema": {"decay": 0.8}})
    learner = Learner(blobs, settings, paths=paths, hooks=[Watch()])
    outcome = learner.run().check()
    averages = {name: values.astype(np.float64) for name, values in history[0].items()}
    for step, weights in enumerate(history[1:]):
        decay = min(0.8, (1 + step) / (10 + step))
        for name, values in weights.items():
            averages[name] = values if values.dtype.kind == "i" else decay * averages[name] + (1 - decay) * values
    assert learner.training is not None and learner.training.ema is not None
    for name, average in learner.training.ema.averages.items():
        np.testing.assert_allclose(average.numpy(), averages[name.removeprefix("net.")], rtol=1e-4, atol=1e-6)
    assert {"valid/ema/accuracy", "test/ema/loss"} <= set(outcome.metrics)
    np.testing.assert_array_equal(learner.task.net.state_dict()["0.weight"], history[-1]["0.weight"])
    resumed = Learner(blobs, settings, paths=paths, attempt=2, resume=paths.root)
    assert resumed.run().check().metrics == outcome.metrics
    weights = paths.checkpoints / "step-8" / "ema.safetensors"
    constant = {"optimizer": {"name": "sgd", "learning_rate": 1e-30}, "train": {"steps": 1}}
    second = Learner(blobs, config(model={"weights": weights}, **constant))
    second.run().check()
    np.testing.assert_allclose(second.task.net.state_dict()["4.weight"], averages["4.weight"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_micro_batches_train_as_one_batch_of_their_size(blobs: Any, config: Any, device: str) -> None:
    """50 rows: three batches of 16 and one of 2, against batches of 32; without norms and dropout, to rounding."""

    class Plain(blobs):  # type: ignore[misc]
        def build(self) -> None:
            self.net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
            self.optimizer = self.optimizer_for(self.net)

    found = []
    for size, accumulate in ((32, 1), (16, 2)):
        settings = config(
            device=device,
            data={"batch_size": size},
            train={"epochs": 3, "accumulate": accumulate},
            schedule={"name": "step", "step_size": 1, "gamma": 0.5},
        )
        learner = Learner(Plain, settings)
        outcome = learner.run().check()
        found.append((outcome.step, learner.task.net.state_dict(), outcome.metrics["valid/loss"]))
    assert found[0][0] == found[1][0] == 6
    for name, values in found[0][1].items():
        np.testing.assert_allclose(found[1][1][name], values, rtol=2e-4, atol=2e-6, err_msg=name)
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-4)


def test_resuming_under_accumulation_gives_the_same_bits(blobs: Any, config: Any, tmp_path: Any) -> None:
    settings = config(train={"epochs": 3, "accumulate": 3, "ema": {}}, data={"batch_size": 8})
    whole = Learner(blobs, settings)
    whole.run().check()

    class StopsAt(Hook):
        is_inline = True

        def after_step(self, training: Training, moment: Moment) -> None:
            if moment.step == 4:
                training.request("stop")

    paths = create_run(tmp_path, "b")
    assert Learner(blobs, settings, paths=paths, hooks=[StopsAt()]).run().status == "stopped"
    resumed = Learner(blobs, settings, paths=paths, attempt=2, resume=paths.root)
    assert resumed.run().check().metrics == whole.metrics
    for name, values in whole.task.net.state_dict().items():
        np.testing.assert_array_equal(resumed.task.net.state_dict()[name], values, err_msg=name)


def test_bfloat16_trains_and_keeps_float32_weights(blobs: Any, config: Any) -> None:
    results = {}
    for precision in ("float32", "bfloat16"):
        learner = Learner(blobs, config(device="cpu", train={"epochs": 4, "precision": precision}))
        results[precision] = learner.run().check().metrics["test/accuracy"]
        assert learner.task.net.state_dict()["0.weight"].dtype == np.float32
    assert results["bfloat16"] >= results["float32"] - 0.1

"""The learner: phases, metrics, requests, failures, and resuming to the same bits."""

from __future__ import annotations

import errno
import json
import os
import signal

import numpy as np
import pytest
from PIL import Image

from trainer import TrainerError, engine
from trainer.learner import Learner, Plan, Sample, Task
from trainer.learner.checkpoints import pointed, read_checkpoint, steps_in
from trainer.learner.progress import Progress
from trainer.rundir import (
    CheckpointEvent,
    EndEvent,
    EventWriter,
    MetricEvent,
    PhaseEvent,
    Request,
    RequestEvent,
    ResumedEvent,
    SampleEvent,
    create_run,
    open_run,
)


class Requests:
    """Hands over requests at given polls, counting polls from 1."""

    def __init__(self, **at: str) -> None:
        self.at = {int(poll.removeprefix("poll")): what for poll, what in at.items()}
        self.polls = 0

    def __call__(self):
        self.polls += 1
        return [Request(str(self.polls), what, {}) for what in self.at.get(self.polls, "").split()]


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def arrays(folder):
    return {name: a.values for group in read_checkpoint(folder).arrays.values() for name, a in group.items()}


def test_a_task_trains_without_files(blobs, config):
    outcome = Learner(blobs, config()).run()
    assert (outcome.status, outcome.exit_code, outcome.step) == ("done", 0, 16)
    assert outcome.metrics["test/accuracy"] > 0.8
    assert set(outcome.metrics) == {
        f"{split}/{name}" for split in ("train", "valid", "test") for name in ("loss", "accuracy")
    }


def test_what_a_run_tells(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    events = []
    Learner(blobs, config(), paths=paths, sink=events.append).run().check()
    phases = [event.name for event in of(events, PhaseEvent) if event.state == "started"]
    assert phases == ["device", "data", "model", "train", "trace", "validate", "trace", "checkpoint"] + 3 * [
        "validate", "checkpoint",
    ] + ["evaluate"]  # fmt: skip
    train = [event for event in of(events, MetricEvent) if event.split == "train"]
    assert [event.step for event in train] == [1, 3, 6, 9, 12, 15, 16]
    assert {"loss", "accuracy", "learning_rate", "samples_per_second"} == set(train[-1].values)
    assert [event.values["learning_rate"] for event in train[:2]] == pytest.approx([0.05 / 3, 0.05])
    assert [event.step for event in of(events, MetricEvent) if event.split == "valid"] == [4, 8, 12, 16]
    (test,) = (event for event in of(events, MetricEvent) if event.split == "test")
    assert test.final and test.step == 16 and test.epoch == 4.0
    assert isinstance(events[-1], EndEvent) and events[-1].metrics["test/accuracy"] == test.values["accuracy"]
    assert steps_in(paths.checkpoints) == [12, 16]
    assert pointed(paths.checkpoints, "latest").name == "step-16"


def test_metrics_are_those_of_the_whole_split(blobs, config, tmp_path):
    """20 validation points in batches of 16: the padded rows count for nothing, and no batch's mean is averaged."""
    learner = Learner(blobs, config(), paths=create_run(tmp_path, "blobs"))
    outcome = learner.run().check()
    data = learner.training.splits.valid.dataset.take(np.arange(20))
    with engine.device("reference"):
        logits = learner.task.net.eval()(engine.asarray(data["point"])).numpy().astype(np.float64)
    correct = logits.argmax(1) == data["label"]
    log_probability = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert outcome.metrics["valid/accuracy"] == pytest.approx(correct.mean())
    assert outcome.metrics["valid/loss"] == pytest.approx(
        -log_probability[np.arange(20), data["label"]].mean(), rel=1e-5
    )


@pytest.mark.parametrize(("device", "stop_after"), [("reference", 6), ("reference", 8), ("cpu", 6)])
def test_resuming_gives_the_same_bits(blobs, config, tmp_path, device, stop_after):
    """Stopped in mid-epoch (and in mid-window of the log), or right at the end of an epoch."""
    whole = create_run(tmp_path, "whole")
    uninterrupted = Learner(
        blobs, config(device=device), paths=whole, sink=EventWriter(whole.events, attempt=1, process_start=0)
    ).run()
    parts = create_run(tmp_path, "parts")
    sink = EventWriter(parts.events, attempt=1, process_start=0)

    class StopAfter:
        def __call__(self):
            return [Request("1", "stop", {})] if first.progress.step >= stop_after else []

    first = Learner(blobs, config(device=device), paths=parts, sink=sink, requests=StopAfter())
    outcome = first.run()
    assert (outcome.status, outcome.exit_code, outcome.step) == ("stopped", 0, stop_after)
    sink = EventWriter(parts.events, attempt=2, process_start=0)
    resumed = Learner(blobs, config(device=device), paths=parts, sink=sink, attempt=2, resume=parts.root).run().check()
    assert resumed.metrics == uninterrupted.metrics
    expected, found = arrays(whole.checkpoints / "step-16"), arrays(parts.checkpoints / "step-16")
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)
    for split, name in (("train", "loss"), ("train", "accuracy"), ("valid", "loss")):
        one, other = open_run(whole.root).metric(split, name), open_run(parts.root).metric(split, name)
        assert list(one.step) == list(other.step) and list(one.value) == list(other.value)


def damage_array(folder):
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    return "step-16/model.safetensors: damaged checkpoint"


def lose_manifest(folder):
    (folder / "manifest.json").unlink()
    return "step-16/manifest.json: incomplete checkpoint"


def empty_manifest(folder):
    (folder / "manifest.json").write_bytes(b"")
    return "step-16/manifest.json: damaged checkpoint"


@pytest.mark.parametrize("damage", [damage_array, lose_manifest, empty_manifest])
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(blobs, config, tmp_path, damage):
    paths, events = create_run(tmp_path, "b"), []
    whole = Learner(blobs, config(), paths=paths).run().check()
    expected = arrays(paths.checkpoints / "step-16")
    said = damage(paths.checkpoints / "step-16")
    resumed = Learner(blobs, config(), paths=paths, attempt=2, resume=paths.root, sink=events.append)
    assert resumed.run().check().metrics == whole.metrics
    assert [event.from_step for event in events if event.kind == "resumed"] == [12]
    (warning,) = [event.message for event in events if event.kind == "warning"]
    assert said in warning
    for name, value in arrays(paths.checkpoints / "step-16").items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_where_no_checkpoint_is_whole_the_newest_ones_problem_is_told(blobs, config, tmp_path):
    paths = create_run(tmp_path, "b")
    Learner(blobs, config(), paths=paths).run().check()
    for step in (12, 16):
        damage_array(paths.checkpoints / f"step-{step}")
    outcome = Learner(blobs, config(), paths=paths, attempt=2, resume=paths.root).run()
    with pytest.raises(TrainerError, match=r"step-16/model\.safetensors: damaged checkpoint"):
        outcome.check()
    named = Learner(blobs, config(), paths=paths, attempt=3, resume=paths.checkpoints / "step-16").run()
    with pytest.raises(TrainerError, match=r"step-16/model\.safetensors: damaged checkpoint"):
        named.check()  # no other than the one that was named


def test_a_task_with_its_own_loaders_does_not_ignore_overfitting(blobs, config):
    with pytest.raises(TrainerError, match=r"ignores train\.overfit_batches[\s\S]*4 batches[\s\S]*at most 2"):
        Learner(blobs, config(train={"epochs": 1, "overfit_batches": 2})).run().check()


def test_test_splits_are_left_alone_on_request(blobs, config):
    events = []
    Learner(blobs, config(validate={"test": False}, train={"epochs": 1}), sink=events.append).run().check()
    assert {event.split for event in events if isinstance(event, MetricEvent)} == {"train", "valid"}


def test_resuming_a_finished_run_only_tests(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    first = Learner(blobs, config(), paths=paths).run()
    events = []
    again = Learner(blobs, config(), paths=paths, sink=events.append, attempt=2, resume=paths.root).run().check()
    assert again.metrics == first.metrics
    assert of(events, ResumedEvent) == [ResumedEvent(16, "checkpoints/step-16")]
    assert not of(events, CheckpointEvent)


def test_resuming_longer_goes_on(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    Learner(blobs, config(train={"epochs": 1}), paths=paths).run().check()
    outcome = Learner(blobs, config(train={"epochs": 2}), paths=paths, attempt=2, resume=paths.root).run()
    assert outcome.step == 8


def test_resuming_with_another_seed_is_refused(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    Learner(blobs, config(train={"steps": 1}), paths=paths).run().check()
    outcome = Learner(blobs, config(seed=1), paths=paths, resume=paths.root).run()
    assert (outcome.status, outcome.exit_code) == ("failed", 2) and "different seed" in outcome.reason


def test_a_forced_resumption_under_another_seed_and_batch_size_keeps_the_step(blobs, config, tmp_path):
    paths, events = create_run(tmp_path, "blobs"), []
    Learner(blobs, config(train={"steps": 3}), paths=paths).run().check()
    changed = config(seed=1, data={"batch_size": 8}, train={"steps": 5})
    outcome = (
        Learner(blobs, changed, paths=paths, sink=events.append, attempt=2, resume=paths.root, is_forced=True)
        .run()
        .check()
    )
    assert outcome.step == 5
    assert [event.from_step for event in events if event.kind == "resumed"] == [3]
    assert any(event.kind == "warning" and "differs from" in event.message for event in events)


def test_resuming_in_another_numerics_class_is_refused(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    Learner(blobs, config(train={"steps": 1}), paths=paths).run().check()
    outcome = Learner(blobs, config(device="cpu", numerics={"class": "fast"}), paths=paths, resume=paths.root).run()
    assert (outcome.status, outcome.exit_code) == ("failed", 2) and "different numerics" in outcome.reason


def test_a_checkpoint_from_before_a_class_was_named_is_resumed_in_what_was_the_only_one(config):
    plan, where, warned = Plan(4, 8), "a checkpoint", []
    state = Progress(step=3).to_json(config(), plan, {}, {})
    del state["numerics"]["bfloat16"]
    assert Progress.from_json(state, config(), plan, warned.append, where=where).step == 3
    tiles = config(device="cpu", numerics={"bfloat16": "tiles"})
    with pytest.raises(TrainerError, match="different numerics"):
        Progress.from_json(state, tiles, plan, warned.append, where=where)


def test_requests_are_carried_out_within_a_step(blobs, config, tmp_path):
    paths, events, sleeps = create_run(tmp_path, "blobs"), [], []
    # Two polls come before the first step.
    requests = Requests(poll4="checkpoint evaluate", poll7="pause", poll9="resume bogus")
    learner = Learner(blobs, config(), paths=paths, sink=events.append, requests=requests, wait=sleeps.append)
    learner.run().check()
    answers = [(event.what, event.state) for event in of(events, RequestEvent)]
    assert answers == [
        ("checkpoint", "received"), ("evaluate", "received"), ("checkpoint", "done"), ("evaluate", "done"),
        ("pause", "received"), ("pause", "done"), ("resume", "received"), ("resume", "done"),
        ("bogus", "received"), ("bogus", "refused"),
    ]  # fmt: skip
    assert len(sleeps) == 2
    requested = next(event for event in of(events, CheckpointEvent) if "requested" in event.reasons)
    assert requested.step == 1
    assert next(event.step for event in of(events, MetricEvent) if event.split == "valid") == 1


def test_a_signal_ends_with_a_checkpoint_and_its_code(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")

    def requests():
        if learner.progress.step == 2:
            learner.interrupt(signal.SIGTERM)
        return []

    learner = Learner(blobs, config(), paths=paths, requests=requests)
    outcome = learner.run()
    assert (outcome.status, outcome.exit_code) == ("interrupted", 143) and "SIGTERM" in outcome.reason
    assert outcome.step == 3  # the signal came before the third step, and was seen after it
    assert steps_in(paths.checkpoints) == [3]


def test_abort_ends_at_once(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    outcome = Learner(blobs, config(), paths=paths, requests=Requests(poll5="abort")).run()
    assert (outcome.status, outcome.step) == ("interrupted", 2)
    assert steps_in(paths.checkpoints) == []


def test_stopping_before_the_first_step_leaves_no_checkpoint(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    outcome = Learner(blobs, config(), paths=paths, requests=Requests(poll1="stop")).run()
    assert (outcome.status, outcome.step) == ("stopped", 0)
    assert steps_in(paths.checkpoints) == []


def test_the_best_is_kept_and_tested(blobs, config, tmp_path):
    class Unlearns(blobs):
        def valid_step(self, batch):
            metrics = super().valid_step(batch)
            metrics["steps"] = metrics["loss"].__class__(self.optimizer.step_count.astype(engine.float32))
            return metrics

    paths = create_run(tmp_path, "blobs")
    best = {"keep_last": 1, "best": {"metric": "valid/steps", "mode": "min"}}
    learner = Learner(Unlearns, config(checkpoint=best), paths=paths)
    learner.run().check()
    assert steps_in(paths.checkpoints) == [4, 16]
    assert pointed(paths.checkpoints, "best").name == "step-4"
    saved = arrays(paths.checkpoints / "step-4")
    np.testing.assert_array_equal(learner.task.net.state_dict()["0.weight"], saved["net.0.weight"])


def test_an_unmeasured_best_metric_is_the_users_mistake(blobs, config):
    outcome = Learner(blobs, config(checkpoint={"best": {"metric": "valid/map", "mode": "max"}})).run()
    assert outcome.exit_code == 2 and "'valid/map' is not computed" in outcome.reason


def test_a_nan_loss_names_its_step_and_keeps_the_last_checkpoint(blobs, config, tmp_path):
    class Diverges(blobs):
        def train_step(self, batch):
            metrics = super().train_step(batch)
            is_bad = self.optimizer.step_count == 8
            metrics["loss"].numerator = engine.where(is_bad, float("nan"), metrics["loss"].numerator)
            return metrics

    paths, events = create_run(tmp_path, "blobs"), []
    outcome = Learner(
        Diverges, config(train={"epochs": 4, "log_every_steps": 100}), paths=paths, sink=events.append
    ).run()
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    assert "train/loss is not finite at step 8" in outcome.reason and "learning_rate" in outcome.reason
    assert "The checkpoint of step 4 is usable" in outcome.reason
    assert isinstance(events[-1], EndEvent) and events[-1].status == "failed" and events[-1].traceback is None
    assert steps_in(paths.checkpoints) == [4]
    read_checkpoint(paths.checkpoints / "step-4")
    with pytest.raises(TrainerError):
        outcome.check()


def test_a_bug_leaves_its_traceback(blobs, config, tmp_path):
    class Broken(blobs):
        def build(self):
            raise RuntimeError("boom")

    paths, events = create_run(tmp_path, "blobs"), []
    outcome = Learner(Broken, config(), paths=paths, sink=events.append).run()
    assert (outcome.status, outcome.exit_code, outcome.reason) == ("failed", 1, "RuntimeError: boom")
    assert events[-1].traceback == "traceback-1.txt"
    assert "in build" in paths.traceback(1).read_text()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"train_step": lambda self, batch: 3.0}, "must return metrics by name"),
        ({"train_step": lambda self, batch: {"loss": 3.0}}, "is not a metric"),
        ({"build": Task.build}, "has no `build` method"),
        ({"build": lambda self: self.optimizer_for(self, "generator")}, "no optimizer called 'generator'"),
    ],
)
def test_mistakes_in_a_task_are_the_users(blobs, config, change, said):
    outcome = Learner(type("Mistaken", (blobs,), change), config()).run()
    assert outcome.exit_code == 2 and said in outcome.reason


def test_several_optimizers_have_their_own_learning_rates(blobs, config):
    class Two(blobs):
        def build(self):
            super().build()
            self.second = self.optimizer_for(self.net, "second")

        def optimizer_for(self, target, name="first"):
            return super().optimizer_for(target, name)

    events = []
    optimizers = {
        "first": {"name": "sgd", "learning_rate": 0.5},
        "second": {"name": "adamw", "learning_rate": 0.1, "schedule": {"name": "constant"}},
    }
    Learner(Two, config(optimizer=None, optimizers=optimizers), sink=events.append).run().check()
    values = of(events, MetricEvent)[0].values
    assert values["learning_rate/optimizer"] == pytest.approx(0.5 / 3)
    assert values["learning_rate/second"] == pytest.approx(0.1)


def test_weights_to_start_from(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    first = Learner(blobs, config(), paths=paths)
    first.run().check()
    weights = paths.checkpoints / "step-16" / "model.safetensors"
    constant = {"optimizer": {"name": "sgd", "learning_rate": 1e-30}, "train": {"steps": 1}}
    second = Learner(blobs, config(model={"weights": weights}, seed=5, **constant))
    second.run().check()
    np.testing.assert_array_equal(second.task.net.state_dict()["4.weight"], first.task.net.state_dict()["4.weight"])
    outcome = Learner(blobs, config(model={"weights": tmp_path / "none.safetensors"})).run()
    assert outcome.exit_code == 2 and "no such file" in outcome.reason


def test_state_json_is_plain_json(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    Learner(blobs, config(train={"steps": 5}), paths=paths).run().check()
    state = json.loads(
        (paths.checkpoints / "step-5" / "state.json").read_text(), parse_constant=lambda text: pytest.fail(text)
    )
    assert (state["step"], state["epoch"], state["batch"], state["steps_per_epoch"]) == (5, 1, 1, 4)
    assert state["sums"]["fields"][:2] == [["loss", "numerator", []], ["loss", "denominator", []]]


def test_samples_are_pictures_with_their_annotations(blobs, config, tmp_path):
    class Shows(blobs):
        def samples(self, batch):
            chosen = engine.argmax(self.net(batch["point"]), axis=1).numpy()
            yield Sample("chosen", (chosen[:, None] * 100).astype(np.uint8), "classes", {"classes": chosen.tolist()})

    paths, events = create_run(tmp_path, "blobs"), []
    Learner(Shows, config(train={"epochs": 1}), paths=paths, sink=events.append).run().check()
    assert of(events, SampleEvent) == [SampleEvent(4, "valid", "chosen", "samples/step-4/chosen.png", "classes")]
    classes = json.loads((paths.samples / "step-4" / "chosen.json").read_text())["classes"]
    with Image.open(paths.samples / "step-4" / "chosen.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture)[:, 0], np.array(classes) * 100)


def test_samples_may_be_texts_and_have_masks(blobs, config, tmp_path):
    mask = np.array([[0, 1], [2, 255]])

    class Shows(blobs):
        def samples(self, batch):
            yield Sample("said", text="to be\nor not", caption="a verse")
            yield Sample("scene", np.zeros((2, 2, 3), np.uint8), mask=mask, class_names=("background", "cat", "dog"))

    paths, events = create_run(tmp_path, "blobs"), []
    Learner(Shows, config(train={"epochs": 1}), paths=paths, sink=events.append).run().check()
    folder = paths.samples / "step-4"
    assert [(event.file, event.caption) for event in of(events, SampleEvent)] == [
        ("samples/step-4/said.txt", "a verse"), ("samples/step-4/scene.png", None),
    ]  # fmt: skip
    assert (folder / "said.txt").read_text() == "to be\nor not"
    annotations = json.loads((folder / "scene.json").read_text())
    assert annotations["class_names"] == ["background", "cat", "dog"]
    with Image.open(folder / annotations["mask"]) as picture:
        np.testing.assert_array_equal(np.asarray(picture), mask)


@pytest.mark.parametrize("mask", [np.zeros((3, 2), int), np.zeros((2, 2)), np.full((2, 2), 256), np.full((2, 2), -1)])
def test_a_mask_that_gives_no_class_to_each_pixel_is_refused(blobs, config, tmp_path, mask):
    class Shows(blobs):
        def samples(self, batch):
            yield Sample("scene", np.zeros((2, 2, 3), np.uint8), mask=mask)

    outcome = Learner(Shows, config(), paths=create_run(tmp_path, "blobs")).run()
    assert outcome.exit_code == 2 and "mask of the sample 'scene'" in outcome.reason


def test_a_sample_that_is_no_picture_is_refused(blobs, config, tmp_path):
    class Shows(blobs):
        def samples(self, batch):
            yield Sample("points", batch["point"].numpy())

    outcome = Learner(Shows, config(), paths=create_run(tmp_path, "blobs")).run()
    assert outcome.exit_code == 2 and "'points' is not an image" in outcome.reason


def test_initial_values_follow_the_seed_of_the_config(blobs, config):
    def initial(seed):
        learner = Learner(blobs, config(seed=seed))
        learner.task.plan = Plan(4, 16)
        learner.task.build()
        return learner.task.net.state_dict()["0.weight"]

    np.testing.assert_array_equal(initial(1), initial(1))
    assert not np.array_equal(initial(1), initial(2))


def test_a_full_disk_ends_the_run_with_the_reason(blobs, config, tmp_path, monkeypatch):
    paths, events = create_run(tmp_path, "blobs"), []

    class Fills(blobs):
        def valid_step(self, batch):
            monkeypatch.setattr(os, "fsync", full)
            return super().valid_step(batch)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    Learner(blobs, config(train={"steps": 2}), paths=paths).run().check()
    outcome = Learner(Fills, config(), paths=paths, sink=events.append, resume=paths.root, attempt=2).run()
    assert (outcome.status, outcome.exit_code) == ("failed", 2)
    assert "no space left" in outcome.reason and "step-4" in outcome.reason
    assert isinstance(events[-1], EndEvent)
    monkeypatch.undo()
    assert steps_in(paths.checkpoints) == [2]
    read_checkpoint(paths.checkpoints / "step-2")


def test_a_best_that_is_found_by_request_is_kept(blobs, config, tmp_path):
    paths = create_run(tmp_path, "blobs")
    best = {"keep_last": 1, "best": {"metric": "valid/loss", "mode": "max"}}
    # Two polls come before the first step; the loss never is as high again as it is then.
    Learner(blobs, config(checkpoint=best), paths=paths, requests=Requests(poll4="evaluate")).run().check()
    assert pointed(paths.checkpoints, "best").name == "step-1"
    assert steps_in(paths.checkpoints) == [1, 16]

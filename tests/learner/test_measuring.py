"""Metrics that the config names, in a training: values, reports, resuming, and what is refused."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.learner.waits import Waits
from tests.tiers import tiered
from trainer import engine
from trainer.configs import EarlyStoppingConfig
from trainer.engine import nn
from trainer.learner import Hook, Learner
from trainer.learner.checkpoints import read_checkpoint
from trainer.learner.measuring import Measuring, Occasion
from trainer.learner.meters import Taken
from trainer.metrics import Mean, Predictions
from trainer.rundir import MetricEvent, Request, create_run


@pytest.fixture
def config(config: Any) -> Any:
    """The same, of lists as YAML has them."""

    def make(*, metrics: dict[str, list[Any]], **sections: Any) -> Any:
        return config(metrics={split: tuple(entries) for split, entries in metrics.items()}, **sections)

    return make


@pytest.fixture
def classes(blobs: Any) -> Any:
    """The task of three clouds, giving predictions for the config's metrics."""

    class Classes(blobs):  # type: ignore[misc]
        def measured(self, loss: Any, logits: Any, batch: Any) -> Any:
            given = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
            return {"loss": Mean(loss, engine.sum(batch["weight"])), "classes": given}

    return Classes


def test_metrics_of_the_config_are_those_of_the_whole_split(classes: Any, config: Any) -> None:
    learner = Learner(classes, config(metrics={"train": ["accuracy"], "valid": ["accuracy", "roc_auc"]}))
    outcome = learner.run().check()
    assert learner.training is not None and learner.training.splits.valid is not None
    data = learner.training.splits.valid.dataset.take(np.arange(20))  # type: ignore[attr-defined]
    with engine.device("reference"):
        logits = learner.task.net.eval()(engine.asarray(data["point"]))  # type: ignore[attr-defined]
        probabilities = nn.functional.softmax(logits, axis=1).numpy()
    assert outcome.metrics["valid/accuracy"] == np.mean(probabilities.argmax(1) == data["label"])
    expected = roc_auc_score(np.eye(3)[data["label"]], probabilities)
    assert outcome.metrics["valid/roc_auc"] == pytest.approx(expected, rel=1e-12)
    assert {name for name in outcome.metrics if name.startswith("test/")} == {
        "test/loss",
        "test/accuracy",
        "test/roc_auc",
    }


def test_test_splits_may_have_metrics_of_their_own(classes: Any, config: Any) -> None:
    metrics = {"valid": ["accuracy"], "test": [{"name": "top_k", "k": 2, "as": "top_2"}]}
    outcome = Learner(classes, config(metrics=metrics)).run().check()
    assert set(outcome.metrics) == {"train/loss", "valid/loss", "valid/accuracy", "test/loss", "test/top_2"}


@pytest.mark.parametrize("stop_after", tiered((5, 6), (5,)))
def test_rows_half_way_through_a_period_are_in_the_checkpoint(
    classes: Any, config: Any, tmp_path: Any, stop_after: int
) -> None:
    settings = config(metrics={"train": ["roc_auc", "accuracy"]}, train={"epochs": 3, "log_every_steps": 4})

    paths = {name: create_run(tmp_path, name) for name in ("whole", "parts")}

    def run(name: str, *, stops: bool = False, **further: Any) -> dict[int, Any]:
        def requests() -> list[Request]:
            return [Request("1", "stop", {})] if stops and learner.progress.step >= stop_after else []

        events: list[Any] = []
        learner = Learner(classes, settings, paths=paths[name], sink=events.append, requests=requests, **further)
        learner.run().check()
        told = [event for event in events if isinstance(event, MetricEvent) and event.split == "train"]
        return {event.step: {name: event.values[name] for name in ("roc_auc", "accuracy")} for event in told}

    begun = run("parts", stops=True)
    held = read_checkpoint(paths["parts"].checkpoints / f"step-{stop_after}").arrays["metrics"]
    assert len(held["roc_auc/labels"].values) == {5: 16, 6: 32}[stop_after]
    assert {**begun, **run("parts", resume=paths["parts"].root)} == run("whole")


def test_what_cannot_work_is_refused_before_the_first_step(blobs: Any, config: Any) -> None:
    events: list[Any] = []
    outcome = Learner(blobs, config(metrics={"valid": ["roc_auc"]}), sink=events.append).run()
    assert (outcome.exit_code, outcome.step) == (2, 0)
    assert "the metric 'roc_auc' can't be computed from the predictions of Blobs.valid_step" in str(outcome.reason)
    assert "logits or scores, labels or labels_hot" in str(outcome.reason)


def test_a_metric_that_the_task_has_too_is_refused(blobs: Any, config: Any) -> None:
    outcome = Learner(blobs, config(metrics={"train": ["accuracy"]})).run()
    assert outcome.exit_code == 2 and "itself returns a metric named 'accuracy'" in str(outcome.reason)


@pytest.mark.parametrize("metric", ["roc_auc", "accuracy"])
def test_a_nan_is_told_of_with_the_item_that_it_is_about(classes: Any, config: Any, metric: str) -> None:
    class Broken(classes):  # type: ignore[misc]
        def data(self) -> Any:
            splits = super().data()
            points = splits.valid.dataset.dataset.arrays["point"]
            points[splits.valid.dataset.indices[17]] = np.nan
            return splits

    outcome = Learner(Broken, config(metrics={"valid": [metric]})).run()
    assert outcome.exit_code == 2
    assert "array[67]: valid: NaN in the logits of a metric" in str(outcome.reason)


@pytest.mark.parametrize("metric", ["roc_auc", "accuracy"])
def test_a_nan_in_training_ends_the_run_at_its_step(classes: Any, config: Any, metric: str) -> None:
    class Broken(classes):  # type: ignore[misc]
        def train_step(self, batch: Any) -> Any:
            found = super().train_step(batch)
            bad = engine.where(self.optimizer.step_count == 2, float("nan"), 0.0)
            given = Predictions(logits=found["classes"]["logits"] + bad, labels=batch["label"])
            return {**found, "classes": given}

    outcome = Learner(Broken, config(metrics={"train": [metric]})).run()
    assert outcome.exit_code == 1 and f"train/{metric} (its logits) is not finite at step 2" in str(outcome.reason)


def test_two_predictions_that_would_do_must_be_told_apart(classes: Any, config: Any) -> None:
    class Twice(classes):  # type: ignore[misc]
        def measured(self, loss: Any, logits: Any, batch: Any) -> Any:
            found = super().measured(loss, logits, batch)
            wrong = Predictions(logits=-logits, labels=batch["label"], weight=batch["weight"])
            return {**found, "opposite": wrong}

    outcome = Learner(Twice, config(metrics={"valid": ["accuracy"]})).run()
    assert outcome.exit_code == 2 and "classes, opposite" in str(outcome.reason)
    chosen = config(metrics={"valid": [{"name": "accuracy", "of": "opposite"}]})
    assert Learner(Twice, chosen).run().check().metrics["valid/accuracy"] < 0.3


def test_reports_are_files_with_the_names_of_classes(tmp_path: Any) -> None:
    from trainer.learner.measuring import Occasion, write_report
    from trainer.metrics import Report

    paths = create_run(tmp_path, "r")
    report = Report("curve", {"x": np.array([0.5, np.nan]), "n": 3})
    file = write_report(paths, "roc", report, Occasion(7, 0.5, "test/near", ("cat", "dog")))
    assert file == paths.reports / "step-7" / "test" / "near" / "roc.json"
    assert json.loads(file.read_text()) == {
        "format": 1, "kind": "curve", "metric": "roc", "split": "test/near", "step": 7, "epoch": 0.5,
        "class_names": ["cat", "dog"], "x": [0.5, "nan"], "n": 3,
    }  # fmt: skip


def waiting(classes: Any, pipe: str) -> Any:
    class Waiting(classes):  # type: ignore[misc]
        def valid_step(self, batch: Any) -> Any:
            wait = Waits(pipe).on(labels=batch["label"], weight=batch["weight"])
            return {**super().valid_step(batch), "slow": wait}

    return Waiting


class Release(Hook):
    """Lets what waits for a pipe go on at a step, once for each value that is awaited."""

    is_inline = True

    def __init__(self, pipe: str, at: int, times: int) -> None:
        os.mkfifo(pipe)
        self.end, self.at, self.times = os.open(pipe, os.O_RDWR), at, times

    def after_step(self, training: Any, moment: Any) -> None:
        if moment.step == self.at:
            os.write(self.end, b"." * self.times)


def test_training_goes_on_beside_an_evaluation_that_takes_its_time(classes: Any, config: Any, tmp_path: Any) -> None:
    pipe, events, paths = str(tmp_path / "pipe"), list[Any](), create_run(tmp_path, "r")
    settings = config(metrics={}, train={"epochs": 2, "log_every_steps": 1})
    release = Release(pipe, at=6, times=3)  # validations after 4 and 8 steps, and the test
    learner = Learner(waiting(classes, pipe), settings, paths=paths, sink=events.append, hooks=[release])
    outcome = learner.run().check()
    assert outcome.metrics["valid/slow/rows"] == 20 and outcome.metrics["test/slow/rows"] == 10
    told = [event for event in events if isinstance(event, MetricEvent)]
    slow = next(index for index, event in enumerate(told) if "slow/rows" in event.values)
    assert (told[slow].step, told[slow].split, told[slow].epoch) == (4, "valid", 1.0)
    assert {event.step for event in told[:slow] if event.split == "train"} >= {5, 6}  # steps after the validation
    assert {event.final for event in told if event.split == "test"} == {True}  # told at once, or the slow ones later
    first = read_checkpoint(paths.checkpoints / "step-4").state
    assert first["validated_step"] == -1  # a run that goes on from there measures again what was not yet known
    last = read_checkpoint(paths.checkpoints / "step-8").state
    assert last["validated_step"] == 8 and last["metrics"]["valid/slow/rows"] == 20  # nothing is left to measure


def test_what_waits_for_a_value_waits_for_the_evaluation(classes: Any, config: Any, tmp_path: Any) -> None:
    pipe, events = str(tmp_path / "pipe"), list[Any]()
    stopping = EarlyStoppingConfig(metric="valid/slow/rows", mode="max", patience=0)
    settings = config(metrics={}, train={"epochs": 4, "log_every_steps": 1}, early_stopping=stopping)
    release = Release(pipe, at=1, times=3)
    outcome = Learner(waiting(classes, pipe), settings, sink=events.append, hooks=[release]).run().check()
    assert outcome.step == 8  # the second time it was no better
    told = [event for event in events if isinstance(event, MetricEvent) and event.split == "valid"]
    assert [(event.step, event.values["slow/rows"]) for event in told] == [(4, 20), (8, 20)]


def test_values_that_come_while_others_are_taken_are_among_them(config: Any) -> None:
    class Answer:
        is_there = True

        def result(self) -> Any:
            return {"rows": 20.0}, {}

    class Meter:
        def take(self, read: Any) -> Taken:
            return Taken({"loss": 1.0}, {}, {"aside": Answer()})  # type: ignore[dict-item]

    measuring = Measuring(config(metrics={}), lambda event: None, None)
    values = measuring.take(Meter(), Occasion(1, 1.0, "train", ()))  # type: ignore[arg-type]
    assert values == {"loss": 1.0, "rows": 20.0} and not measuring.is_pending(1)


@pytest.mark.parametrize("clip", [None, 0.01])
def test_the_gradient_norm_is_that_of_all_gradients_before_clipping(
    classes: Any, config: Any, clip: float | None
) -> None:
    norms: list[float] = []

    class Noted(classes):  # type: ignore[misc]
        def build(self) -> None:
            super().build()
            self.noted = engine.State(np.zeros(()), "noted")
            apply = self.optimizer.apply

            def note(gradients: Any) -> None:
                squares = [engine.sum(each.astype(engine.float64) ** 2) for each in gradients]
                self.noted.assign(engine.sqrt(engine.sum(engine.stack(squares))))
                apply(gradients)

            self.optimizer.apply = note

    class Read(Hook):
        is_inline = True

        def after_step(self, training: Any, moment: Any) -> None:
            norms.append(float(training.task.noted.numpy()))

    train = {"steps": 6, "log_every_steps": 100, "gradient_clip_norm": clip}
    outcome = Learner(Noted, config(metrics={"train": ["gradient_norm"]}, train=train), hooks=[Read()]).run().check()
    assert outcome.metrics["train/gradient_norm"] == pytest.approx(np.mean(norms[1:]), rel=1e-5)


def test_the_gradient_norm_of_an_evaluation_is_refused(classes: Any, config: Any) -> None:
    outcome = Learner(classes, config(metrics={"valid": ["gradient_norm"]})).run()
    assert (outcome.exit_code, outcome.step) == (2, 0) and "Predictions with gradient_norm" in str(outcome.reason)

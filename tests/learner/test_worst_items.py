"""The worst items of an evaluation in a training: which they are, their pictures, resuming, and tasks without any."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.datasets import Loader
from trainer.learner import Learner, Sample
from trainer.metrics import Mean, Predictions
from trainer.rundir import MetricEvent, ReportEvent, Request, RunPaths, WarningEvent, create_run


@pytest.fixture
def clouds(blobs: Any) -> Any:
    """The task of three clouds, which shows each point as a picture of one pixel."""

    class Clouds(blobs):  # type: ignore[misc]
        def measured(self, loss: Any, logits: Any, batch: Any) -> Any:
            given = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
            return {"loss": Mean(loss, engine.sum(batch["weight"])), "classes": given}

        def samples(self, batch: Any) -> Any:
            said = self.net(batch["point"]).numpy().argmax(1)
            for row, label in enumerate(batch["label"].numpy()):
                caption = f"says {said[row]}, is {label}"
                yield Sample(f"point-{row}", np.full((1, 1), 40 * label, np.uint8), caption)

    return Clouds


def worst_of(paths: RunPaths, step: int, split: str = "valid", name: str = "worst_items") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((paths.reports / f"step-{step}" / split / f"{name}.json").read_text())
    return content


def by_numpy(learner: Learner, split: str, limit: int) -> tuple[list[int], np.ndarray]:
    """The worst items of a split and their log losses, with the weights as they are, in float64."""
    assert learner.training is not None
    loader = learner.training.splits.valid if split == "valid" else learner.training.splits.tests()[split]
    assert loader is not None
    data = loader.dataset.take(np.arange(len(loader.dataset)))  # type: ignore[attr-defined]
    with engine.device("reference"):
        logits = learner.task.net.eval()(engine.asarray(data["point"])).numpy().astype(np.float64)  # type: ignore[attr-defined]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(logits)), data["label"]]
    return sorted(range(len(losses)), key=lambda item: (-losses[item], item))[:limit], losses


@pytest.mark.parametrize("batch_size", [16, 7, 20, 3])
def test_they_are_numpys_whatever_the_batches(clouds: Any, config: Any, tmp_path: Path, batch_size: int) -> None:
    class Rebatched(clouds):  # type: ignore[misc]
        def data(self) -> Any:
            splits = super().data()
            return replace(splits, valid=Loader(splits.valid.dataset, batch_size))

    paths, events = create_run(tmp_path, "run"), list[Any]()
    settings = config(train={"epochs": 2}, validate={"worst_items": 5})
    learner = Learner(Rebatched, settings, paths=paths, sink=events.append)
    learner.run().check()
    for split in ("valid", "test"):
        content = worst_of(paths, 8, split)
        items, losses = by_numpy(learner, split, 5)
        assert [entry["item"] for entry in content["items"]] == items
        assert [entry["score"] for entry in content["items"]] == pytest.approx(losses[items], rel=1e-5)
        assert (content["kind"], content["score"]) == ("worst_items", "log loss")
    reports = [event for event in events if isinstance(event, ReportEvent)]
    assert {(event.step, event.split, event.name) for event in reports} == {
        (4, "valid", "worst_items"), (8, "valid", "worst_items"), (8, "test", "worst_items"),
    }  # fmt: skip


def test_each_has_the_pictures_that_the_task_shows_of_it(clouds: Any, config: Any, tmp_path: Path) -> None:
    from PIL import Image

    paths = create_run(tmp_path, "run")
    learner = Learner(clouds, config(train={"epochs": 1}, validate={"worst_items": 4}), paths=paths)
    learner.run().check()
    assert learner.training is not None and learner.training.splits.valid is not None
    dataset = learner.training.splits.valid.dataset
    entries = worst_of(paths, 4)["items"]
    assert len(entries) == 4
    for rank, entry in enumerate(entries, start=1):
        assert entry["samples"] == [f"reports/step-4/valid/worst_items/{rank}/point-0.png"]
        label = int(dataset[entry["item"]]["label"])
        picture = paths.root / entry["samples"][0]
        assert np.asarray(Image.open(picture)).tolist() == [[40 * label]]
        assert entry["caption"].endswith(f"is {label}") and entry["source"] == dataset.source(entry["item"])
        assert json.loads(picture.with_suffix(".json").read_text())["caption"] == entry["caption"]


def test_of_averaged_weights_there_are_those_alone(clouds: Any, config: Any, tmp_path: Path) -> None:
    paths = create_run(tmp_path, "run")
    settings = config(train={"epochs": 1, "ema": {"decay": 0.5}}, validate={"worst_items": 3})
    Learner(clouds, settings, paths=paths).run().check()
    assert len(worst_of(paths, 4, name="ema/worst_items")["items"]) == 3
    assert not (paths.reports / "step-4" / "valid" / "worst_items.json").exists()
    assert (paths.reports / "step-4" / "valid" / "ema" / "worst_items" / "3" / "point-0.png").exists()


def test_a_resumed_run_finds_the_same(clouds: Any, config: Any, tmp_path: Path) -> None:
    settings = config(train={"epochs": 3}, validate={"worst_items": 5})
    paths = {name: create_run(tmp_path, name) for name in ("whole", "parts")}
    Learner(clouds, settings, paths=paths["whole"]).run().check()

    def stop() -> list[Request]:
        return [Request("1", "stop", {})] if first.progress.step >= 6 else []

    first = Learner(clouds, settings, paths=paths["parts"], requests=stop)
    assert first.run().status == "stopped"
    Learner(clouds, settings, paths=paths["parts"], resume=paths["parts"].root, attempt=2).run().check()
    for step, split in ((4, "valid"), (8, "valid"), (12, "valid"), (12, "test")):
        assert worst_of(paths["parts"], step, split) == worst_of(paths["whole"], step, split)


def test_what_is_trained_and_measured_is_the_same_without_them(clouds: Any, config: Any, tmp_path: Path) -> None:
    def metrics(name: str, count: int) -> list[Any]:
        events: list[Any] = []
        settings = config(train={"epochs": 2}, validate={"worst_items": count})
        paths = create_run(tmp_path, name)
        Learner(clouds, settings, paths=paths, sink=events.append).run().check()
        assert any(isinstance(event, ReportEvent) for event in events) == bool(count)
        told = [event for event in events if isinstance(event, MetricEvent)]
        return [(event.step, event.split, {name: value for name, value in event.values.items()
                                           if name != "samples_per_second"}) for event in told]  # fmt: skip

    assert metrics("with", 8) == metrics("without", 0)


def test_samples_that_can_not_show_one_item_alone_are_a_warning(clouds: Any, config: Any, tmp_path: Path) -> None:
    class Greedy(clouds):  # type: ignore[misc]
        def samples(self, batch: Any) -> Any:
            yield Sample("third", np.full((1, 1), batch["label"].numpy()[2], np.uint8))

    paths, events = create_run(tmp_path, "run"), list[Any]()
    Learner(Greedy, config(train={"epochs": 1}), paths=paths, sink=events.append).run().check()
    entries = worst_of(paths, 4)["items"]
    assert len(entries) == 8 and not any("samples" in entry for entry in entries)
    told = [event.message for event in events if isinstance(event, WarningEvent)]
    assert any("Greedy.samples, of a batch of one item, said IndexError" in message for message in told)


def test_a_task_that_tells_of_no_single_items_has_no_such_report(blobs: Any, config: Any, tmp_path: Path) -> None:
    paths, events = create_run(tmp_path, "run"), list[Any]()
    Learner(blobs, config(train={"epochs": 1}), paths=paths, sink=events.append).run().check()
    assert not [event for event in events if isinstance(event, ReportEvent)]

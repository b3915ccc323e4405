"""Items that can't be used are reported as events, and do not count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainer import TrainerError
from trainer.configs import RunConfig, config_from
from trainer.datasets import Item, Loader, loaders
from trainer.engine import nn
from trainer.learner import Batch, DataSplits, Learner, Task
from trainer.metrics import Mean, Measured
from trainer.rundir import BadItemEvent, Event, PhaseEvent, WarningEvent


class OneBroken:
    """Four numbers, of which the third can't be read."""

    class_names = ()

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Item:
        if index == 2:
            raise TrainerError("unreadable")
        return {"value": np.array([index], np.float32)}

    def source(self, index: int) -> str:
        return f"numbers/{index}.txt"


class Average(Task):
    """Learns the mean of its data."""

    def data(self) -> DataSplits:
        return DataSplits(Loader(OneBroken(), 4, on_error=self.config.data.on_error))

    def build(self) -> None:
        self.net = nn.Linear(1, 1)
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch: Batch) -> dict[str, Measured]:
        loss = Mean((self.net(batch["value"]) - batch["value"]) ** 2, batch["weight"])
        self.optimizer.minimize(loss.value)
        return {"loss": loss, "value": Mean(batch["value"], batch["weight"])}


def run(on_error: str) -> tuple[Any, list[BadItemEvent]]:
    events: list[Event] = []
    config = RunConfig.model_validate(
        {"task": "average", "device": "reference", "optimizer": {"name": "sgd"}, "train": {"epochs": 1}}
        | {"data": {"on_error": on_error}}
    )
    outcome = Learner(Average, config, sink=events.append).run()
    return outcome, [event for event in events if isinstance(event, BadItemEvent)]


def test_skipped_items_are_events_and_leave_the_metrics_alone() -> None:
    outcome, events = run("skip")
    outcome.check()
    assert [(event.source, event.action, event.count) for event in events] == [("numbers/2.txt", "skipped", 1)]
    assert "unreadable" in events[0].reason
    assert outcome.metrics["train/value"] == pytest.approx((0 + 1 + 3) / 3)


def test_a_raised_item_is_an_event_and_ends_the_run() -> None:
    outcome, events = run("raise")
    assert (outcome.status, outcome.exit_code) == ("failed", 2)
    assert [event.action for event in events] == ["raised"]


class FromReader(Average):
    """The same from a file that the config names."""

    def data(self) -> DataSplits:
        return DataSplits(**loaders(self.read_splits(), self.config))

    def train_step(self, batch: Batch) -> dict[str, Measured]:
        return super().train_step({**batch, "value": batch["features"]})


def run_reader(tmp_path: Path, on_error: str, **reader: Any) -> tuple[Any, list[Event]]:
    events: list[Event] = []
    data = {"root": str(tmp_path), "batch_size": 4, "on_error": on_error, "reader": reader}
    config = config_from({"device": "reference", "optimizer": {"name": "sgd"}, "train": {"epochs": 1}, "data": data})
    return Learner(FromReader, config, sink=events.append).run(), events


def test_a_reader_of_the_config_skips_rows_by_their_lines(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("x\n0\n1\ntwo\n3\n")
    outcome, events = run_reader(tmp_path, "skip", name="table", file="numbers.csv")
    outcome.check()
    assert WarningEvent("1 skipped: not a number (1)", where="data") in events
    bad = [event for event in events if isinstance(event, BadItemEvent)]
    assert [(event.source, event.action) for event in bad] == [(f"{tmp_path}/numbers.csv:4", "skipped")]
    assert outcome.metrics["train/value"] == pytest.approx((0 + 1 + 3) / 3)


@pytest.mark.parametrize("on_error", ["skip", "raise"])
def test_a_record_that_belongs_to_no_item_is_told_of(tmp_path: Path, on_error: str) -> None:
    (tmp_path / "images").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "images" / "a.png")
    stray = {"id": 1, "image_id": 2, "category_id": 1, "bbox": [0, 0, 1, 1]}
    images, categories = [{"id": 1, "file_name": "a.png"}], [{"id": 1, "name": "a"}]
    content = {"images": images, "categories": categories, "annotations": [stray]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    _, events = run_reader(tmp_path, on_error, name="coco", annotations="a.json")
    bad = [event for event in events if isinstance(event, BadItemEvent)]
    assert [(event.source, event.count) for event in bad] == [(f"{tmp_path}/a.json", 1)]
    assert (
        "annotation 1 is of image 2" in bad[0].reason
        and bad[0].action == {"skip": "skipped", "raise": "raised"}[on_error]
    )
    summary = WarningEvent("1 skipped: an annotation belongs to no image (1)", where="data")
    assert (summary in events) is (on_error == "skip")
    assert any(
        isinstance(event, PhaseEvent) and event.name == "data" and event.done == event.total == 1 for event in events
    )


def test_a_task_that_reads_without_a_reader_is_told_so() -> None:
    config = config_from({"device": "reference", "optimizer": {"name": "sgd"}, "train": {"epochs": 1}})
    with pytest.raises(TrainerError, match="FromReader needs a data folder and its format"):
        Learner(FromReader, config).run().check()

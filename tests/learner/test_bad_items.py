"""Items that can't be used are told of as events, and do not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.configs import RunConfig
from trainer.datasets import Item, Loader
from trainer.engine import nn
from trainer.learner import Batch, DataSplits, Learner, Task
from trainer.metrics import Mean, Metric
from trainer.rundir import BadItemEvent, Event


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

    def train_step(self, batch: Batch) -> dict[str, Metric]:
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

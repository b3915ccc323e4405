"""A small task and its config."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.configs import RunConfig
from trainer.datasets import ArrayDataset, Loader, split
from trainer.engine import nn
from trainer.learner import Batch, DataSplits, Task
from trainer.metrics import Accuracy, Mean, Measured


@pytest.fixture
def blobs() -> Any:
    """A task of three clouds of points, for the reference device."""
    return Blobs


class Blobs(Task):
    """Classify points of the plane by a small network with batch norm and dropout."""

    def data(self) -> DataSplits:
        generator = np.random.default_rng(0)
        labels = generator.integers(0, 3, 80)
        points = (np.eye(3, 2)[labels] * 3 + generator.normal(size=(80, 2)) * 0.3).astype(np.float32)
        data = split(ArrayDataset({"point": points, "label": labels}), {"train": 50, "valid": 20, "test": 10})
        seed, size = self.config.seed, self.config.data.batch_size
        return DataSplits(
            train=Loader(data["train"], size, seed, shuffle=True),
            valid=Loader(data["valid"], size),
            test=Loader(data["test"], size),
        )

    def build(self) -> None:
        self.net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch: Batch) -> dict[str, Measured]:
        logits = self.net(batch["point"])
        loss = nn.cross_entropy(logits, batch["label"], sample_weight=batch["weight"])
        self.optimizer.minimize(loss)
        return self.measured(loss, logits, batch)

    def valid_step(self, batch: Batch) -> dict[str, Measured]:
        logits = self.net(batch["point"])
        return self.measured(nn.cross_entropy(logits, batch["label"], sample_weight=batch["weight"]), logits, batch)

    def measured(self, loss: engine.Tensor, logits: engine.Tensor, batch: Batch) -> dict[str, Measured]:
        return {
            "loss": Mean(loss, engine.sum(batch["weight"])),
            "accuracy": Accuracy().on(logits=logits, labels=batch["label"], weight=batch["weight"]),
        }


@pytest.fixture
def config() -> Any:
    """Makes a RunConfig for the reference device: 4 epochs of 4 steps, Adam; sections given replace the defaults."""

    def make(**sections: Any) -> RunConfig:
        return RunConfig(
            **{
                "task": "blobs",
                "device": "reference",
                "optimizer": {"name": "adam", "learning_rate": 0.05},
                "schedule": {"name": "cosine", "warmup_steps": 3},
                "data": {"batch_size": 16},
                "train": {"epochs": 4, "log_every_steps": 3},
                **sections,
            }
        )

    return make

"""A small network on a slow disk: a training that does everything a training can do, on a fraction of a core."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from trainer import engine
from trainer.datasets import Item, loaders
from trainer.engine import nn
from trainer.learner import Batch, DataSplits, Sample, Task
from trainer.metrics import Mean, Predictions
from trainer.metrics.metric import Place
from trainer.metrics.ranking import RocAuc

SECONDS_AN_ITEM = 0.01


class RocAucAside(RocAuc):
    """ROC AUC, folded in parallel with the training, like the metrics of detection."""

    folds_in: Place = "aside"


class SlowDisk:
    """Images of four classes; reading one takes SECONDS_AN_ITEM."""

    class_names = ("north", "east", "south", "west")

    def __init__(self, items: int) -> None:
        self._items = items

    def __len__(self) -> int:
        return self._items

    def source(self, index: int) -> str:
        return f"picture {index}"

    def __getitem__(self, index: int) -> Item:
        time.sleep(SECONDS_AN_ITEM)
        generator, label = np.random.default_rng(index), index % 4
        picture = generator.integers(0, 200, (32, 32, 3)).astype(np.uint8)
        picture[(slice(8), slice(-8, None))[label % 2] if label < 2 else slice(12, 20)] += np.uint8(40)
        return {"image": picture, "label": np.asarray(label)}


class Steady(Task):
    """Classifies which side of an image is brighter."""

    def data(self) -> DataSplits:
        return DataSplits(**loaders({"train": SlowDisk(400), "valid": SlowDisk(80)}, self.config))

    def build(self) -> None:
        self.network = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.1),
            nn.Conv2d(16, 32, 3, 2, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 64, 4),
        )  # fmt: skip
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        measured = self.valid_step(batch)
        loss = measured["loss"]
        assert isinstance(loss, Mean)
        self.optimizer.minimize(loss.value)
        return measured

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        logits = self.logits(batch)
        losses = nn.cross_entropy(logits, batch["label"], reduction="none")
        classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
        return {"loss": Mean(losses, batch["weight"]), "classes": classes}

    def logits(self, batch: Batch) -> engine.Tensor:
        return self.network(batch["image"].astype(engine.float32) * (1 / 255))

    def samples(self, batch: Batch) -> Iterator[Sample]:
        said = self.logits(batch).numpy().argmax(1)
        for row, picture in enumerate(batch["image"].numpy()[:4]):
            yield Sample(f"picture-{row}", picture.transpose(1, 2, 0), SlowDisk.class_names[said[row]])

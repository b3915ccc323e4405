"""Shared parts of photo classifiers: the data, CutMix, predictions averaged over mirror images, and samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainer import engine
from trainer.datasets import loaders
from trainer.engine import Tensor, nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.metrics import Mean, Predictions
from trainer.recipes.parts.cutmix import cutmix
from trainer.recipes.parts.normalization import Normalize

SHOWN = 2  # photos per class


class PhotoTask(Task):
    """Classifies photos.

    A recipe's `build` creates `normalize` and `network`, from images [N, 3, H, W] to logits [N, classes], then calls
    `super().build()`. Option: `cutmix`, the probability that a rectangle of another photo is pasted.
    """

    network: Any
    normalize: Normalize

    def data(self) -> DataSplits:
        splits = self.read_splits("image", "label")
        self.class_names = splits["train"].class_names
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        pictures = self.normalize(batch["image"])
        pictures, shares = cutmix(pictures, batch["labels_hot"], probability=self.options.cutmix)
        losses = nn.cross_entropy(self.network(pictures), shares, reduction="none")
        loss = Mean(losses, batch["weight"])
        self.optimizer.minimize(loss.value)
        return {"loss": loss}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        logits = self.classify(batch["image"])
        losses = nn.cross_entropy(logits, batch["label"], reduction="none")
        classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
        return {"loss": Mean(losses, batch["weight"]), "classes": classes}

    def pipeline(self) -> inference.Pipeline:
        return inference.Pipeline(
            "classification",
            tuple(self.class_names),
            prepare=inference.preparation(self.config),
            network=lambda images: {"logits": self.classify(images)},
            finish=(inference.Softmax(),),
        )

    def classify(self, images: Tensor) -> Tensor:
        """Logits [N, classes] of images, averaged over each image and its mirror image."""
        pictures = self.normalize(images)
        return 0.5 * (self.network(pictures) + self.network(engine.flip(pictures, axis=3)))

    def samples(self, batch: Batch) -> list[Sample]:
        """The first photos of each class with their predictions."""
        kinds, is_photo = batch["label"].numpy(), batch["weight"].numpy() > 0
        rows = [row for kind in np.unique(kinds) for row in np.flatnonzero(is_photo & (kinds == kind))[:SHOWN]]
        images, labels = batch["image"].numpy()[rows], kinds[rows]
        chosen = self.classify(engine.asarray(images)).numpy().argmax(axis=1)
        shown = []
        for number, (picture, found, right) in enumerate(
            zip(images.transpose(0, 2, 3, 1), chosen, labels, strict=True)
        ):
            caption = f"predicted {self.class_names[found]}"
            if found != right:
                caption += f", true {self.class_names[right]}"
            shown.append(Sample(f"photo-{number}", np.ascontiguousarray(picture), caption))
        return shown

"""A task: its data, its network, its training step. Edit anything; `trainer run config.yaml` trains it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trainer.datasets import loaders
from trainer.engine import Tensor, float32, nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.metrics import Mean, Predictions

from .options import Options


class Classifier(Task):
    """Classifies images."""

    options: Options  # the values of `options:`; `self.config` is the whole configuration

    def data(self) -> DataSplits:
        """The splits that `data.reader` reads from `data.root`, transformed by `data.transforms` and batched."""
        splits = self.read_splits()
        self.class_names = splits["train"].class_names
        made = loaders(splits, self.config)
        self.channels = made["train"].batch(0, 0)["image"].shape[1]  # images are [N, C, H, W] of uint8
        return DataSplits(**made)

    def build(self) -> None:
        """Creates the network and its optimizer as attributes, so that checkpoints contain them."""
        width = self.options.width
        self.network = nn.Sequential(
            *stage(self.channels, width),
            *stage(width, 2 * width),
            *stage(2 * width, 4 * width),
            nn.AdaptiveAvgPool2d(1),  # images of any size
            nn.Flatten(),
            nn.Linear(4 * width, len(self.class_names)),
        )
        self.optimizer = self.optimizer_for(self.network)  # the optimizer of `optimizer:`

    def train_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        """One training step. Compiled once: it computes with tensors and never reads their values."""
        loss, classes = self.measure(batch)
        self.optimizer.minimize(loss.value)
        return {"loss": loss, "classes": classes}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        """One validation step: the same without the optimizer."""
        loss, classes = self.measure(batch)
        return {"loss": loss, "classes": classes}

    def measure(self, batch: Batch) -> tuple[Mean, Predictions]:
        """The loss, and the predictions for the config's metrics; rows of weight 0 are padding."""
        logits = self.network(floats(batch["image"]))
        losses = nn.cross_entropy(logits, batch["label"], reduction="none")
        classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
        return Mean(losses, batch["weight"]), classes

    def pipeline(self) -> inference.Pipeline:
        """From an image file to class probabilities, for `trainer predict` and `trainer export`."""
        return inference.Pipeline(
            "classification",
            tuple(self.class_names),
            prepare=inference.preparation(self.config),  # the transforms of `data.transforms.valid`
            network=lambda images: {"logits": self.network(floats(images))},
            finish=(inference.Softmax(),),
        )

    def samples(self, batch: Batch) -> Iterable[Sample]:
        """Images shown after each validation; values may be read here."""
        found = self.network(floats(batch["image"])).numpy().argmax(axis=1)
        images, labels = batch["image"].numpy(), batch["label"].numpy()
        for index in range(min(8, len(images))):
            picture = images[index].transpose(1, 2, 0)  # [H, W, C]
            caption = f"predicted {self.class_names[found[index]]}, true {self.class_names[labels[index]]}"
            yield Sample(f"image-{index + 1}", np.ascontiguousarray(picture.squeeze()), caption)


def stage(channels: int, width: int) -> list[nn.Module]:
    """Convolution, batch norm and ReLU, then max pooling to half the height and width."""
    convolution = nn.Conv2d(channels, width, kernel_size=3, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]


def floats(images: Tensor) -> Tensor:
    """Converts uint8 0 to 255 to float32 -1 to 1."""
    return images.astype(float32) * (2 / 255) - 1

"""Handwritten digits: LeNet's task (LeCun et al. 1998) with a small network of convolution, batch norm and ReLU."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trainer.datasets import RandomShift, loaders, read_idx_pair, split
from trainer.engine import Tensor, float32, nn
from trainer.learner import Batch, DataSplits, Sample, Task
from trainer.metrics import Mean, Predictions

from .options import Options

SHOWN_SAMPLES = 8


class Digits(Task):
    """Says which digit an image shows."""

    options: Options

    def data(self) -> DataSplits:
        options = self.options
        folder = self.data_root()
        images = read_idx_pair(folder / options.images, folder / options.labels, class_names=options.class_names)
        self.image_size = images.arrays["image"].shape[2:]
        training_images = len(images) - options.valid_images - options.test_images
        parts = split(images, {"train": training_images, "valid": options.valid_images, "test": options.test_images})
        return DataSplits(**loaders(parts, self.config, augmentation=RandomShift(options.shift)))

    def build(self) -> None:
        height, width = ((extent + 1) // 2 // 2 // 2 for extent in self.image_size)
        self.network = nn.Sequential(
            convolution(1, 32, kernel_size=5, stride=2),
            convolution(32, 32, kernel_size=3),
            nn.MaxPool2d(2),
            convolution(32, 64, kernel_size=3),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * height * width, 128),
            nn.ReLU(),
            nn.Dropout(self.options.dropout),
            nn.Linear(128, len(self.options.class_names)),
        )
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        loss, classes = self.measure(batch)
        self.optimizer.minimize(loss.value)
        return {"loss": loss, "classes": classes}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        loss, classes = self.measure(batch)
        return {"loss": loss, "classes": classes}

    def samples(self, batch: Batch) -> Iterable[Sample]:
        """The first few digits, and what the network says they are."""
        logits = self.network(pixels_to_floats(batch["image"])).numpy()
        names = self.options.class_names
        for index in range(min(SHOWN_SAMPLES, len(logits))):
            said, true = names[int(logits[index].argmax())], names[int(batch["label"][index])]
            caption = f"says {said}" if said == true else f"says {said}, is {true}"
            yield Sample(f"digit-{index + 1:02}", np.asarray(batch["image"][index, 0]), caption)

    def measure(self, batch: Batch) -> tuple[Mean, Predictions]:
        """The loss of a batch, and what metrics are computed from; rows of weight 0 only fill it."""
        logits = self.network(pixels_to_floats(batch["image"]))
        losses = nn.cross_entropy(logits, batch["label"], reduction="none")
        classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
        return Mean(losses, batch["weight"]), classes


def convolution(in_channels: int, out_channels: int, *, kernel_size: int, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU; at stride 1 the picture keeps its size."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding=kernel_size // 2, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
    )


def pixels_to_floats(images: Tensor) -> Tensor:
    """uint8 0 to 255 as float32 0 to 1."""
    return images.astype(float32) * (1 / 255)

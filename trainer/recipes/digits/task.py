"""Handwritten digits: the task of LeNet (LeCun et al. 1998), with a small convolutional network."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trainer.datasets import Pipeline, RandomShift, loaders
from trainer.datasets.dataset import gives_batches
from trainer.datasets.transforms import Resize
from trainer.engine import Tensor, float32, nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.metrics import Mean, Predictions

from .options import DECLARATION, Options

SHOWN_SAMPLES = 8


class Digits(Task):
    """Classifies the digit in an image."""

    options: Options
    head = ("network.9.*",)

    def data(self) -> DataSplits:
        """Reads arrays unchanged; resizes images from separate files to one size, unless `data.transforms` is set."""
        size = self.options.size
        splits = {
            name: part if gives_batches(part) else Pipeline(part, [Resize((size, size))], self.config.seed)
            for name, part in self.read_splits(*DECLARATION.fields).items()
        }
        self.class_names = splits["train"].class_names
        made = loaders(splits, self.config, augmentation=RandomShift(self.options.shift))
        self.image_shape = next(iter(made.values())).batch(0, 0)["image"].shape[1:]
        return DataSplits(**made)

    def build(self) -> None:
        channels, *extents = self.image_shape
        height, width = ((extent + 1) // 2 // 2 // 2 for extent in extents)
        self.network = nn.Sequential(
            convolution(channels, 32, kernel_size=5, stride=2),
            convolution(32, 32, kernel_size=3),
            nn.MaxPool2d(2),
            convolution(32, 64, kernel_size=3),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * height * width, 128),
            nn.ReLU(),
            nn.Dropout(self.options.dropout),
            nn.Linear(128, len(self.class_names)),
        )
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        loss, classes = self.measure(batch)
        self.optimizer.minimize(loss.value)
        return {"loss": loss, "classes": classes}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        loss, classes = self.measure(batch)
        return {"loss": loss, "classes": classes}

    def pipeline(self) -> inference.Pipeline:
        return inference.Pipeline(
            "classification",
            tuple(self.class_names),
            prepare=inference.preparation(
                self.config,
                channels=self.image_shape[0],
                default=(inference.TransformPicture("resize", {"size": tuple(self.image_shape[1:])}),),
            ),
            network=lambda images: {"logits": self.logits(images)},
            finish=(inference.Softmax(),),
        )

    def logits(self, images: Tensor) -> Tensor:
        """Logits [N, classes] of images."""
        return self.network(pixels_to_floats(images))

    def samples(self, batch: Batch) -> Iterable[Sample]:
        """The first few digits with their predictions."""
        logits = self.logits(batch["image"]).numpy()
        names = self.class_names
        for index in range(min(SHOWN_SAMPLES, len(logits))):
            predicted, true = names[int(logits[index].argmax())], names[int(batch["label"][index])]
            caption = f"predicted {predicted}" if predicted == true else f"predicted {predicted}, true {true}"
            yield Sample(f"digit-{index + 1:02}", picture(np.asarray(batch["image"][index])), caption)

    def measure(self, batch: Batch) -> tuple[Mean, Predictions]:
        """The loss of a batch and the predictions for metrics; rows of weight 0 are padding."""
        logits = self.logits(batch["image"])
        losses = nn.cross_entropy(logits, batch["label"], reduction="none")
        classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
        return Mean(losses, batch["weight"]), classes


def convolution(in_channels: int, out_channels: int, *, kernel_size: int, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU. At stride 1 the image keeps its size."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding=kernel_size // 2, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
    )


def picture(image: np.ndarray) -> np.ndarray:
    """[C, H, W] as [H, W] for a grayscale image, [H, W, 3] for RGB."""
    return image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))


def pixels_to_floats(images: Tensor) -> Tensor:
    """Converts uint8 0 to 255 to float32 0 to 1."""
    return images.astype(float32) * (1 / 255)

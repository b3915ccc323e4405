"""Classifies photos of clothes with a vision transformer (Dosovitskiy et al. 2021) trained from scratch.

The photo is cut into patches, which attend to each other. The averages over the patches are classified. Photos are
augmented as in the recipe `clothes`, so that both networks can be compared.
"""

from __future__ import annotations

import numpy as np

from trainer import TrainerError, engine
from trainer.datasets import loaders
from trainer.engine import Tensor, float32, nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.metrics import Mean, Predictions
from trainer.recipes.parts.cutmix import cutmix

from .options import DECLARATION, Options

SHOWN = 2  # photos per class


class VisionTransformerTask(Task):
    """Classifies the piece of clothing in a photo."""

    options: Options
    head = ("network.classes.*",)

    def data(self) -> DataSplits:
        splits = self.read_splits(*DECLARATION.fields)
        self.class_names = splits["train"].class_names
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        self.network = VisionTransformer(self.options, len(self.class_names))
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        pictures = pixels_to_floats(batch["image"])
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
        pictures = pixels_to_floats(images)
        return 0.5 * (self.network(pictures) + self.network(engine.flip(pictures, axis=3)))

    def samples(self, batch: Batch) -> list[Sample]:
        """The first photos of each class with their predictions."""
        kinds, is_photo = batch["label"].numpy(), batch["weight"].numpy() > 0
        rows = [row for kind in np.unique(kinds) for row in np.flatnonzero(is_photo & (kinds == kind))[:SHOWN]]
        images, labels = batch["image"].numpy()[rows], kinds[rows]
        chosen = self.classify(engine.asarray(images)).numpy().argmax(axis=1)
        names, pictures = self.class_names, images.transpose(0, 2, 3, 1)
        return [
            Sample(
                f"photo-{number}",
                np.ascontiguousarray(picture),
                names[found] + ("" if found == right else f", but is {names[right]}"),
            )
            for number, (picture, found, right) in enumerate(zip(pictures, chosen, labels, strict=True))
        ]


class VisionTransformer(nn.Module):
    """Images [N, 3, size, size] to logits [N, classes]."""

    def __init__(self, options: Options, classes: int) -> None:
        if options.size % options.patch:
            raise TrainerError(
                "patches don't divide the photos", where="options.patch", found=options.patch,
                expected=f"a divisor of {options.size}",
            )  # fmt: skip
        width, self.side = options.width, options.size // options.patch
        self.size = options.size
        self.patches = nn.Conv2d(3, width, options.patch, stride=options.patch)
        self.positions = nn.LearnedPositions(width, self.side**2)
        self.dropout = nn.Dropout(options.dropout)
        self.blocks = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(
                    width, options.heads, 4 * width, dropout=options.dropout, activation="gelu", batch_first=True,
                    norm_first=True,
                )
                for _ in range(options.depth)
            ]
        )  # fmt: skip
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        self._check_shape(x.shape[1:] == (3, self.size, self.size), x, f"[N, 3, {self.size}, {self.size}]")
        features = self.patches(x)
        tokens = engine.permute_dims(engine.reshape(features, (*features.shape[:2], self.side**2)), (0, 2, 1))
        tokens = self.dropout(self.positions(tokens))
        for block in self.blocks:
            tokens = block(tokens)
        return self.classes(engine.mean(self.norm(tokens), axis=1))


def pixels_to_floats(images: Tensor) -> Tensor:
    """Converts uint8 0 to 255 to float32 of about mean 0 and standard deviation 1."""
    return images.astype(float32) * (1 / 64) - 2

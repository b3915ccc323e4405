"""Semantic segmentation with a U-Net (Ronneberger, Fischer and Brox 2015): a class for each pixel of an image."""

from __future__ import annotations

from collections.abc import Iterator

from trainer import TrainerError, engine
from trainer.datasets import loaders
from trainer.datasets.fields import IGNORED
from trainer.engine import Tensor, float32, nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.learner.inference.tiles import Tiles
from trainer.metrics import Mean, Predictions
from trainer.recipes.parts.backbones import backbone
from trainer.recipes.parts.normalization import Normalize
from trainer.recipes.parts.unet import UNet

from .options import DECLARATION, Options

MIRRORS = ((2,), (3,), (2, 3))
"""Axes of the reflections for test-time augmentation."""


class Segmentation(Task):
    """Classifies every pixel."""

    options: Options
    head = ("network.head.*",)

    def data(self) -> DataSplits:
        """Random crops of training images, all tiles of the other splits."""
        splits = self.read_splits(*DECLARATION.fields)
        self.class_names = list(splits["train"].class_names)
        tile, margin = self.options.tile, self.options.margin
        tiled = {name: part if name == "train" else Tiles(part, tile, margin) for name, part in splits.items()}
        return DataSplits(**loaders(tiled, self.config))

    def build(self) -> None:
        options = self.options
        self.normalize = Normalize.of(DECLARATION.normalization_of(self.config.model, options))
        encoder = None if options.backbone is None else backbone(options.backbone)
        self.network = UNet(3, len(self.class_names), options.widths, options.reduction, encoder)
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        logits = self.network(self.normalize(batch["image"]))
        losses = self.losses(logits, batch)
        self.optimizer.minimize(losses["loss"].value)
        pixels = Predictions(logits=logits, labels=self.reduced(batch["mask"]), weight=batch["weight"])
        return {**losses, "pixels": pixels}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        image = self.normalize(batch["image"])
        logits = self.network(image)
        pixels = Predictions(scores=self.scores(image, logits), labels=batch["mask"], weight=batch["weight"])
        return {**self.losses(logits, batch), "pixels": pixels}

    def pipeline(self) -> inference.Pipeline:
        def network(images: Tensor) -> dict[str, Tensor]:
            image = self.normalize(images)
            return {"scores": self.scores(image, self.network(image))}

        decode, *transforms = inference.preparation(self.config, scales=False)
        if transforms:
            raise TrainerError(
                "transforms of the valid split apply to tiles; this transform changes their position, so tiles can't "
                    "be assembled",
                where="data.transforms.valid", found=", ".join(str(step.to_json()) for step in transforms),
                expected="none",
            )  # fmt: skip
        return inference.Pipeline(
            "semantic",
            tuple(self.class_names),
            prepare=(decode, inference.Tile(self.options.tile, self.options.margin)),
            network=network,
            finish=(inference.LabelPixels(),),
        )

    def scores(self, image: Tensor, logits: Tensor) -> Tensor:
        """Class probabilities of each pixel, [B, C, H, W], averaged over reflections if `flips` is set."""
        scores = nn.functional.softmax(logits, axis=1)
        if self.options.flips:
            scores = (scores + sum(self.mirrored(image, axes) for axes in MIRRORS)) * (1 / (1 + len(MIRRORS)))
        return nn.functional.interpolate(scores, size=image.shape[2:], mode="bilinear")

    def reduced(self, mask: Tensor) -> Tensor:
        """The target classes at the centers of the network's output pixels."""
        step = self.network.reduction
        return mask[:, step // 2 :: step, step // 2 :: step]

    def samples(self, batch: Batch) -> Iterator[Sample]:
        """Tiles with predicted and target classes."""
        image = self.normalize(batch["image"])
        found = engine.argmax(self.scores(image, self.network(image)), axis=1).numpy()
        pictures = batch["image"].numpy().transpose(0, 2, 3, 1)
        for number, (picture, chosen, right) in enumerate(zip(pictures, found, batch["mask"].numpy(), strict=True)):
            for name, mask in (("predicted", chosen), ("target", right)):
                yield Sample(f"{number}-{name}", picture.copy(), name, mask=mask, class_names=tuple(self.class_names))

    def losses(self, logits: Tensor, batch: Batch) -> dict[str, Mean]:
        """Cross entropy of pixels that are not ignored, and soft Dice over the batch, with equal weight per class."""
        mask, rows = self.reduced(batch["mask"]), batch["weight"]
        counted = (mask != IGNORED).astype(float32) * engine.reshape(rows, (-1, 1, 1))
        cross_entropy = nn.cross_entropy(logits, mask, ignore_index=IGNORED, reduction="none")
        mean = engine.sum(cross_entropy * counted) / engine.maximum(engine.sum(counted), 1.0)
        dice = nn.dice_loss(logits, mask, ignore_index=IGNORED, sample_weight=rows)
        parts = {"loss": mean + self.options.dice * dice, "cross_entropy": mean, "dice": dice}
        return {name: Mean(value, engine.sum(rows)) for name, value in parts.items()}

    def mirrored(self, image: Tensor, axes: tuple[int, ...]) -> Tensor:
        """Probabilities of the flipped image, flipped back."""
        logits = self.network(engine.flip(image, axis=axes))
        return engine.flip(nn.functional.softmax(logits, axis=1), axis=axes)

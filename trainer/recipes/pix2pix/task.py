"""Image-to-image translation: pix2pix, a conditional generative adversarial network with an L1 loss (Isola et al.
2017).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from trainer import engine
from trainer.datasets import Dataset, loaders
from trainer.datasets.readers import mark_read
from trainer.engine import Tensor, float32, nn, uint8
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.metrics import Mean, Predictions
from trainer.recipes.parts.normal_weights import with_normal_weights
from trainer.recipes.parts.patchgan import PatchDiscriminator
from trainer.recipes.parts.pix2pix_generator import Pix2PixGenerator

from .map_tiles import CLASSES, read_map_tiles
from .options import DECLARATION, Options


class Pix2Pix(Task):
    """Translates an `image` to its `target`; the recipe translates maps to photos."""

    options: Options

    def data(self) -> DataSplits:
        """Reads image pairs unchanged; cuts photos with class masks into tiles, paired with their label maps."""
        splits: Mapping[str, Dataset]
        root, reader = self.data_root(), self.config.data.reader
        if reader is not None and reader.name == "pairs" and (root / CLASSES).exists():
            splits = mark_read(reader, read_map_tiles(root, self.opening))
        else:
            splits = self.read_splits(*DECLARATION.fields)
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        options = self.options
        generator = Pix2PixGenerator(filters=options.filters, depth=options.depth, dropout=options.dropout)
        self.generator = with_normal_weights(generator)
        self.discriminator = with_normal_weights(PatchDiscriminator(filters=options.filters))
        self.generator_optimizer = self.optimizer_for(self.generator, "generator")
        self.discriminator_optimizer = self.optimizer_for(self.discriminator, "discriminator")

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        source, target, weight = to_floats(batch["image"]), to_floats(batch["target"]), batch["weight"]
        made = self.generator(source)

        real, fake = self.discriminator(source, target), self.discriminator(source, made)
        discriminator_loss = (cross_entropy(real, is_real=True) + cross_entropy(fake, is_real=False)) * 0.5
        discriminator = Mean(discriminator_loss, weight)
        self.discriminator_optimizer.minimize(discriminator.value)

        taken_for_real = self.discriminator(source, made)  # with the discriminator after its update
        adversarial = Mean(cross_entropy(taken_for_real, is_real=True), weight)
        l1 = Mean(nn.l1_loss(made, target, reduction="none"), weight)
        loss = adversarial.value + self.options.l1_weight * l1.value
        self.generator_optimizer.minimize(loss)
        return {"loss": Mean(loss), "l1": l1, "adversarial": adversarial, "discriminator": discriminator}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        target = to_floats(batch["target"])
        made = self.made(batch["image"])
        l1 = Mean(nn.l1_loss(made, target, reduction="none"), batch["weight"])
        pictures = Predictions(predicted=to_shares(made), target=to_shares(target), weight=batch["weight"])
        return {"l1": l1, "pictures": pictures}

    def pipeline(self) -> inference.Pipeline:
        return inference.Pipeline(
            "image",
            (),
            prepare=inference.preparation(self.config, scales=False),
            network=lambda images: {"picture": self.made(images)},
            finish=(inference.ToPixels(),),
        )

    def made(self, images: Tensor) -> Tensor:
        """The generator's images [N, 3, H, W] in (-1, 1) for uint8 images."""
        return self.generator(to_floats(images))

    def samples(self, batch: Batch) -> Iterable[Sample]:
        """Input, output and target side by side."""
        made = to_pixels(self.made(batch["image"])).numpy()
        for number in range(min(self.options.samples, len(made))):
            row = [batch["image"].numpy()[number], made[number], batch["target"].numpy()[number]]
            picture = np.concatenate(row, axis=2).transpose(1, 2, 0)
            yield Sample(f"pair-{number + 1}", picture, "input, output, target")


def cross_entropy(logits: Tensor, *, is_real: bool) -> Tensor:
    """Binary cross entropy of the patch logits, with all patches real or all fake."""
    right = engine.full_like(logits, float(is_real))
    return nn.binary_cross_entropy_with_logits(logits, right, reduction="none")


def to_floats(pixels: Tensor) -> Tensor:
    """Converts uint8 0 to 255 to float32 -1 to 1."""
    return pixels.astype(float32) * (1 / 127.5) - 1


def to_shares(picture: Tensor) -> Tensor:
    """Converts -1 to 1 to 0 to 1, the range of the image metrics."""
    return (picture + 1) * 0.5


def to_pixels(picture: Tensor) -> Tensor:
    """Converts -1 to 1 to uint8 0 to 255."""
    return engine.round((picture + 1) * 127.5).astype(uint8)

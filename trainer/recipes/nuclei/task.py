"""Instance segmentation of nuclei: a U-Net (Ronneberger et al. 2015) that predicts the foreground, a center heatmap and
offsets to the center (Panoptic-DeepLab, Cheng et al. 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields

import numpy as np

from trainer import engine
from trainer.datasets import loaders
from trainer.datasets.fields import IGNORED
from trainer.datasets.gray import StretchedGray
from trainer.engine import Tensor, float32, int64, nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.learner.inference.grouping import Grouping
from trainer.learner.inference.instances import InstanceFigures, InstanceMaps, measured_instances
from trainer.metrics import Mean, Measured, Predictions
from trainer.recipes.parts.instances import samples_of, targets
from trainer.recipes.parts.unet import UNet

from .appearance import balanced
from .options import DECLARATION, Options

SYMMETRIES = tuple((turned, axes) for turned in (False, True) for axes in ((), (2,), (3,), (2, 3)))
"""The eight rotations and reflections of an image: transposed or not, then flipped along axes."""

OFFSET_SCALE = 8.0
"""Offset in pixels that corresponds to a network output of 1."""


class Nuclei(Task):
    """Segments each nucleus separately."""

    options: Options

    def data(self) -> DataSplits:
        read = self.read_splits(*DECLARATION.fields)
        if self.options.rare > 1:
            read["train"] = balanced(read["train"], self.options.rare, self.opening)
        splits = {name: StretchedGray(InstanceMaps(part)) for name, part in read.items()}
        names = splits["train"].class_names
        self.class_name = names[0] if len(names) == 1 else "object"
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        options = self.options
        self.network = UNet(2, 4, options.widths)
        self.optimizer = self.optimizer_for(self.network)
        rules = {rule.name: getattr(options, rule.name) for rule in fields(Grouping)}
        self.grouping = Grouping(**rules)
        self.figures = InstanceFigures(self.grouping, self.class_name)

    def train_step(self, batch: Batch) -> dict[str, Measured | Predictions]:
        losses = self.losses(self.network(normalized(batch["image"])), batch)
        self.optimizer.minimize(losses["loss"].value)
        return {**losses}

    def valid_step(self, batch: Batch) -> dict[str, Measured | Predictions]:
        image = normalized(batch["image"])
        outputs = self.network(image)
        return {
            **self.losses(outputs, batch),
            **measured_instances(self.figures, self.averaged(image, outputs), batch),
        }

    def pipeline(self) -> inference.Pipeline:
        def network(images: Tensor) -> dict[str, Tensor]:
            image = normalized(images)
            return {"maps": self.averaged(image, self.network(image))}

        decode, *transforms = inference.preparation(self.config, channels=1, scales=False, largest=self.largest_image)
        return inference.Pipeline(
            "instances",
            (self.class_name,),
            prepare=(decode, inference.StretchGray(), *transforms),
            network=network,
            finish=(inference.GroupInstances(asdict(self.grouping)), inference.SelectByScore()),
        )

    def samples(self, batch: Batch) -> Iterator[Sample]:
        """Images with the predicted nuclei, and with those of the ground truth."""
        image = normalized(batch["image"])
        maps = self.averaged(image, self.network(image)).numpy()
        pictures, right = batch["image"].numpy()[:, 0], batch["mask"].numpy()
        for number, (picture, found, segments) in enumerate(zip(pictures, maps, right, strict=True)):
            whole = np.ix_(*(np.flatnonzero((segments != IGNORED).any(axis)) for axis in (1, 0)))  # without padding
            objects, scores = self.figures.group(found, segments)
            yield from samples_of(number, picture[whole], objects[whole], scores, segments[whole])

    def losses(self, outputs: Tensor, batch: Batch) -> dict[str, Mean]:
        """Cross entropy and soft Dice of the foreground, cross entropy of the center heatmap, L1 of offsets relative to
        the radius.
        """
        right, segments, rows = targets(batch["mask"]), batch["mask"], batch["weight"]
        counted = (segments != IGNORED).astype(float32) * engine.reshape(rows, (-1, 1, 1))
        inside = right.foreground.astype(float32) * engine.reshape(rows, (-1, 1, 1))

        def mean(values: Tensor, weights: Tensor) -> Tensor:
            return engine.sum(values * weights) / engine.maximum(engine.sum(weights), 1.0)

        is_object = right.foreground.astype(float32)
        foreground = mean(nn.binary_cross_entropy_with_logits(outputs[:, 0], is_object, reduction="none"), counted)
        labels = engine.where(segments == IGNORED, IGNORED, right.foreground.astype(int64))
        dice = nn.dice_loss(outputs[:, :1], labels, ignore_index=IGNORED, sample_weight=rows)
        heatmap = mean(nn.binary_cross_entropy_with_logits(outputs[:, 1], right.heatmap, reduction="none"), counted)
        off = engine.abs(outputs[:, 2] * OFFSET_SCALE - right.offset_y) + engine.abs(
            outputs[:, 3] * OFFSET_SCALE - right.offset_x
        )
        offsets = mean(off / right.radius, inside)
        parts = {"foreground": foreground, "dice": dice, "center_heatmap": heatmap, "offsets": offsets}
        total = foreground + dice + heatmap + offsets
        return {name: Mean(value, engine.sum(rows)) for name, value in {"loss": total, **parts}.items()}

    def averaged(self, image: Tensor, outputs: Tensor) -> Tensor:
        """The maps of images, averaged over all rotations and reflections if `flips` is set."""
        maps = self.maps(outputs)
        if self.options.flips:
            others = [self.reflected_maps(image, *symmetry) for symmetry in SYMMETRIES[1:]]
            maps = (maps + sum(others)) * (1 / len(SYMMETRIES))
        return maps

    def maps(self, outputs: Tensor) -> Tensor:
        """[B, 4, H, W]: foreground probability, center heatmap, offsets in pixels down and to the right."""
        return engine.concat([engine.logistic(outputs[:, :2]), outputs[:, 2:] * OFFSET_SCALE], axis=1)

    def reflected_maps(self, image: Tensor, turned: bool, axes: tuple[int, ...]) -> Tensor:
        """The maps of a transposed and flipped image, transformed back; the two offsets are swapped and negated
        accordingly.
        """
        exchanged = (0, 1, 3, 2) if turned else (0, 1, 2, 3)
        reflected = engine.flip(engine.permute_dims(image, exchanged), axis=axes)
        maps = engine.flip(self.maps(self.network(reflected)), axis=axes)
        signs = engine.asarray([1.0, 1.0, -1.0 if 2 in axes else 1.0, -1.0 if 3 in axes else 1.0], dtype=float32)
        maps = engine.permute_dims(maps * engine.reshape(signs, (1, 4, 1, 1)), exchanged)
        return engine.concat([maps[:, :2], maps[:, 3:], maps[:, 2:3]], axis=1) if turned else maps


def normalized(images: Tensor) -> Tensor:
    """Converts uint8 0 to 255 [B, 1, H, W] to float32 [B, 2, H, W] around 0: gray, and its square root, which shows
    faint edges.
    """
    gray = images.astype(float32) * (1 / 255)
    return engine.concat([4 * gray - 1, 4 * engine.sqrt(gray) - 2], axis=1)

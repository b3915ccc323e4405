"""FCOS (Tian et al. 2019) with a small residual network and a feature pyramid: detects boxes and classes of objects."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trainer import engine
from trainer.datasets import loaders
from trainer.engine import Tensor, float32, nn
from trainer.learner import Batch, DataSplits, Task, inference
from trainer.learner.inference.placing import placed
from trainer.learner.samples import Sample
from trainer.metrics import Mean, Predictions
from trainer.recipes.parts.backbones import Backbone, backbone
from trainer.recipes.parts.boxes import Locations, locations
from trainer.recipes.parts.fcos import Detections, FcosHead, assign, detect
from trainer.recipes.parts.feature_pyramid import FeaturePyramid
from trainer.recipes.parts.normalization import Normalize
from trainer.recipes.parts.resnet import ResNet

from .options import DECLARATION, Options

STRIDES = (8, 16, 32)

SHOWN_SCORE = 0.4
"""Score threshold for drawn detections."""


class Detector(nn.Module):
    """Images uint8 [N, 3, H, W] to class logits [N, L, C] and distances [N, L, 4] to the sides, in strides."""

    def __init__(self, options: Options, classes: int, normalize: Normalize) -> None:
        self.normalize = normalize
        self.backbone: Backbone = (
            backbone(options.backbone) if options.backbone else ResNet(options.blocks, width=options.width, classes=0)
        )
        self.pyramid = FeaturePyramid(self.backbone.channels[1:], options.pyramid_channels)
        self.head = FcosHead(options.pyramid_channels, classes, depth=options.head_depth, levels=len(STRIDES))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        levels = self.backbone.stages(self.normalize(images))[1:]
        return self.head(self.pyramid(levels))


class Detection(Task):
    """Detects objects in images: their boxes and classes."""

    options: Options
    head = ("network.head.class_logits.*",)

    def data(self) -> DataSplits:
        splits = self.read_splits(*DECLARATION.fields)
        self.class_names = tuple(splits["train"].class_names)
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        normalize = Normalize.of(DECLARATION.normalization_of(self.config.model, self.options))
        self.network = Detector(self.options, len(self.class_names), normalize)
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        losses = self.losses(batch)
        self.optimizer.minimize(losses["loss"].value)
        return losses

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        """Evaluates boxes in pixels of the original images, before any transform."""
        found = self.detections(batch["image"])
        objects = Predictions(
            image_id=batch["image_id"],
            classes=found.classes,
            scores=found.scores,
            boxes=placed(found.boxes, batch["placement"]),
            true_classes=batch["labels"],
            true_boxes=placed(batch["boxes"], batch["placement"]),
            weight=batch["weight"],
            **{name: batch[name] for name in ("crowd",) if name in batch},
        )
        return {**self.losses(batch), "objects": objects}

    def losses(self, batch: Batch) -> dict[str, Mean]:
        """Classification with quality focal loss, the IoU of the predicted box as quality target (Li et al. 2020);
        boxes with GIoU loss.
        """
        logits, distances = self.network(batch["image"])
        places = self.places(batch["image"])
        boxes = places.boxes(distances)
        targets = assign(places, batch["boxes"], batch["labels"], self.options.ranges, radius=self.options.radius)
        counts = targets.is_positive.astype(float32) * engine.expand_dims(batch["weight"], axis=1)
        positives = engine.maximum(engine.sum(counts), 1)
        quality = engine.stop_gradient(1 - nn.box_iou_loss(boxes, targets.boxes))
        is_class = engine.expand_dims(targets.classes, axis=-1) == engine.arange(logits.shape[2])
        quality_targets = engine.where(is_class, engine.expand_dims(quality, axis=-1), 0)
        class_loss = (
            nn.quality_focal_loss(logits, quality_targets, reduction="sum", sample_weight=batch["weight"]) / positives
        )
        box_loss = engine.sum(nn.generalized_box_iou_loss(boxes, targets.boxes) * counts) / positives
        total = class_loss + self.options.box_weight * box_loss
        named = {"loss": total, "class_loss": class_loss, "box_loss": box_loss}
        return {name: Mean(value, positives) for name, value in named.items()}

    def detections(self, images: Tensor) -> Detections:
        """The detections of each image, with boxes in its pixels."""
        logits, distances = self.network(images)
        options = self.options
        return detect(
            logits,
            self.places(images).boxes(distances),
            candidates=options.candidates,
            score_threshold=options.score_threshold,
            iou_threshold=options.iou_threshold,
            most=options.detections,
        )

    def pipeline(self) -> inference.Pipeline:
        return inference.Pipeline(
            "detections",
            self.class_names,
            prepare=inference.preparation(self.config),
            network=lambda images: vars(self.detections(images)),
            finish=(inference.BoxesToPicture(), inference.SelectByScore(SHOWN_SCORE)),
        )

    def places(self, images: Tensor) -> Locations:
        """The locations of the feature pyramid for images of this size."""
        height, width = images.shape[2:]
        return locations([(-(-height // stride), -(-width // stride)) for stride in STRIDES], STRIDES)

    def samples(self, batch: Batch) -> Iterable[Sample]:
        """The first images with their detections, and with their ground truth."""
        found = self.detections(batch["image"][:4])
        engine.evaluate(found.boxes, found.scores, found.classes)  # so that the network runs once for all of them
        for row, image in enumerate(batch["image"].numpy()[:4]):
            good = found.scores.numpy()[row] >= SHOWN_SCORE
            classes = [self.class_names[number] for number in found.classes.numpy()[row][good]]
            scores = np.round(found.scores.numpy()[row][good], 3).tolist()
            boxes = np.round(found.boxes.numpy()[row][good], 1).tolist()
            annotations = {"boxes": boxes, "classes": classes, "scores": scores}
            picture = image.transpose(1, 2, 0)
            yield Sample(f"image_{row}", picture, f"{len(boxes)} predicted", annotations)
            there = batch["labels"].numpy()[row] >= 0
            names = [self.class_names[number] for number in batch["labels"].numpy()[row][there]]
            true = {"boxes": np.round(batch["boxes"].numpy()[row][there], 1).tolist(), "classes": names}
            yield Sample(f"image_{row}-target", picture, f"{len(names)} in the ground truth", true)

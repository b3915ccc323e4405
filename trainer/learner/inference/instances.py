"""Instances in validation: the masks of objects as one mask of segments, and COCO metrics of grouped objects."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from trainer import engine
from trainer.datasets import Item, Wrapped
from trainer.datasets.fields import IGNORED
from trainer.engine import Tensor
from trainer.learner.inference.grouping import PER_CLASS, Grouping
from trainer.metrics import Measured, Predictions
from trainer.metrics.detection import CocoFigures
from trainer.metrics.metric import WEIGHT, Part, State

INSTANCE_FIELDS = ("image", "masks", "labels", "crowd", "image_id")
"""The fields of items that `InstanceMaps` needs."""


class InstanceMaps(Wrapped):
    """Items {image, mask, image_id} of `dataset`, with all `masks` combined into one `mask` of segments.

    Where masks overlap, the smaller object is in front. Crowds are ignored.
    """

    object_counts = None  # the objects are in the mask; no padding of boxes is needed

    def __getitem__(self, index: int) -> Item:
        item = self.dataset[index]
        segments = np.zeros(item["image"].shape[:2], np.int32)
        areas = item["masks"].sum((1, 2))
        for number in np.argsort(-areas, kind="stable").tolist():
            value = IGNORED if item["crowd"][number] else (item["labels"][number] + 1) * PER_CLASS + number
            segments[item["masks"][number]] = value
        return {"image": item["image"], "mask": segments, "image_id": item["image_id"]}


class InstanceFigures(CocoFigures):
    """COCO average precision and recall of the masks that `Grouping` computes from a network's maps, for one class.

    A step returns `image_id` [B], `maps` float32 [B, 4, H, W] (foreground probability, center heatmap, offsets down and
    to the right) and the ground truth `segments` int32 [B, H, W]. Objects are grouped in the evaluation process while
    training continues.
    """

    def __init__(self, grouping: Grouping, class_name: str = "object") -> None:
        super().__init__("segm", (class_name,))
        self.grouping = grouping
        self.needs = ("image_id", "maps", "segments")

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        return {name: given[name] for name in self.needs}

    def fold(self, state: State, part: Part) -> State:
        for row in np.flatnonzero(part[WEIGHT]).tolist():
            right = part["segments"][row]
            found, scores = self.group(part["maps"][row], right)
            numbers = np.unique(right[right >= PER_CLASS])
            one = {
                WEIGHT: np.ones(1),
                "image_id": part["image_id"][row : row + 1],
                "scores": scores[None],
                "classes": np.zeros((1, len(scores)), np.int64),
                "masks": found == np.arange(1, len(scores) + 1)[None, :, None, None],
                "true_classes": np.zeros((1, len(numbers)), np.int64),
                "true_masks": right == numbers[None, :, None, None],
            }
            state = super().fold(state, one)
        return state

    def group(self, maps: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The predicted objects and scores for maps [4, H, W] of an image; none in ignored areas."""
        return self.grouping(np.where(right == IGNORED, 0, maps[0]), maps[1], maps[2:])

    def state_key(self) -> Hashable:
        return InstanceFigures, self.grouping


def measured_instances(
    figures: InstanceFigures, maps: Tensor, batch: Mapping[str, Tensor]
) -> dict[str, Measured | Predictions]:
    """The outputs of a validation step for a network's `maps` [B, 4, H, W]: the objects and the foreground pixels."""
    segments, weight = batch["mask"], batch["weight"]
    labels = engine.where(segments == IGNORED, segments, (segments > IGNORED).astype(segments.dtype))
    return {
        "objects": figures.on(image_id=batch["image_id"], maps=maps, segments=segments, weight=weight),
        "pixels": Predictions(scores=maps[:, 0], labels=labels, weight=weight),
    }

"""Instances in validation: objects' masks as one mask of segments, and COCO's figures of what a `Grouping` finds."""

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
"""Fields of items of which `InstanceMaps` makes segments."""


class InstanceMaps(Wrapped):
    """Items {image, mask, image_id} of `dataset`'s, whose `masks` become one `mask` of segments.

    Where masks overlap the smaller object is in front. Crowds don't count.
    """

    object_counts = None  # the objects are in the mask, and need no room

    def __getitem__(self, index: int) -> Item:
        item = self.dataset[index]
        segments = np.zeros(item["image"].shape[:2], np.int32)
        areas = item["masks"].sum((1, 2))
        for number in np.argsort(-areas, kind="stable").tolist():
            value = IGNORED if item["crowd"][number] else (item["labels"][number] + 1) * PER_CLASS + number
            segments[item["masks"][number]] = value
        return {"image": item["image"], "mask": segments, "image_id": item["image_id"]}


class InstanceFigures(CocoFigures):
    """Average precision and recall of the masks that a `Grouping` makes of a network's maps, of one class of objects.

    A step gives `image_id` [B], `maps` float32 [B, 4, H, W] (probability of the foreground, nearness, offsets down and
    to the right) and `segments` int32 [B, H, W]. They leave the step as they are; objects are gathered in the process
    that evaluates, while training goes on.
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
            found, scores = self.gather(part["maps"][row], right)
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

    def gather(self, maps: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The objects and scores of a picture's maps [4, H, W], as `Grouping` has them; none where nothing counts."""
        return self.grouping(np.where(right == IGNORED, 0, maps[0]), maps[1], maps[2:])

    def state_key(self) -> Hashable:
        return InstanceFigures, self.grouping


def measured_instances(
    figures: InstanceFigures, maps: Tensor, batch: Mapping[str, Tensor]
) -> dict[str, Measured | Predictions]:
    """What a validation step gives of a network's `maps` [B, 4, H, W]: the objects, and the foreground's pixels."""
    segments, weight = batch["mask"], batch["weight"]
    labels = engine.where(segments == IGNORED, segments, (segments > IGNORED).astype(segments.dtype))
    return {
        "objects": figures.on(image_id=batch["image_id"], maps=maps, segments=segments, weight=weight),
        "pixels": Predictions(scores=maps[:, 0], labels=labels, weight=weight),
    }

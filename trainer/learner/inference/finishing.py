"""Steps after the network: convert its outputs for one image to the arrays of a result. NumPy on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from trainer.learner.inference.grouping import Grouping
from trainer.learner.inference.steps import Placement, Step, built_in

Arrays = dict[str, np.ndarray]
"""Arrays by name; those of the network have a first axis for the rows of one image: one row, or one per tile."""


class Finishing(Step):
    """A step from the network's outputs for one image toward its result."""

    def __call__(self, arrays: Arrays, placement: Placement) -> Arrays:
        raise NotImplementedError


@built_in
@dataclass(frozen=True)
class Softmax(Finishing):
    """Converts `logits` [1, C] to `scores` float32 [C] with a sum of 1."""

    name: ClassVar[str] = "softmax"

    def __call__(self, arrays: Arrays, placement: Placement) -> Arrays:
        powers = np.exp(arrays["logits"][0] - arrays["logits"][0].max())
        return {"scores": (powers / powers.sum()).astype(np.float32)}


@built_in
@dataclass(frozen=True)
class BoxesToPicture(Finishing):
    """Converts `boxes` [1, D, 4] of the network's image to pixels of the original, with `scores` and `classes` [1, D].

    Padding rows, with a class below 0, are dropped.
    """

    name: ClassVar[str] = "boxes_to_picture"

    def __call__(self, arrays: Arrays, placement: Placement) -> Arrays:
        holds = arrays["classes"][0] >= 0
        found = {name: arrays[name][0][holds] for name in ("boxes", "scores", "classes")}
        return {**found, "boxes": placement.boxes(found["boxes"])}


@built_in
@dataclass(frozen=True)
class GroupInstances(Finishing):
    """Groups `maps` [1, 4, H, W] into objects: `segments` int32 [H, W] of the original image (0: background), and
    `scores` [N].

    Args:
        rules: the parameters of `Grouping`.
    """

    name: ClassVar[str] = "group_instances"

    rules: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.made()

    def made(self) -> Grouping:
        """Creates the grouping with these rules."""
        settings: dict[str, Any] = dict(self.rules)
        return Grouping(**settings)

    def __call__(self, arrays: Arrays, placement: Placement) -> Arrays:
        maps, shown = arrays["maps"][0], np.zeros(placement.frame, bool)
        shown[placement.visible()] = True
        segments, scores = self.made()(np.where(shown, maps[0], 0), maps[1], maps[2:])
        classes = np.zeros(len(scores), np.int64)
        return {"segments": placement.labels(segments), "scores": scores, "classes": classes}


@built_in
@dataclass(frozen=True)
class SelectByScore(Finishing):
    """Selects the objects with a score of at least `threshold`, and of `classes` if given.

    Sorts by decreasing score; objects of `segments` are renumbered.
    """

    name: ClassVar[str] = "select_by_score"

    threshold: float = 0.0
    classes: tuple[int, ...] | None = None

    def __call__(self, arrays: Arrays, placement: Placement) -> Arrays:
        stays = arrays["scores"] >= self.threshold
        if self.classes is not None:
            stays &= np.isin(arrays["classes"], self.classes)
        order = np.flatnonzero(stays)
        order = order[np.argsort(-arrays["scores"][order], kind="stable")]
        selected = {name: values[order] for name, values in arrays.items() if name != "segments"}
        if "segments" in arrays:
            numbers = np.zeros(len(stays) + 1, np.int32)
            numbers[order + 1] = np.arange(1, len(order) + 1)
            selected["segments"] = numbers[arrays["segments"]]
        return selected


@built_in
@dataclass(frozen=True)
class LabelPixels(Finishing):
    """Converts `scores` [T, C, h, w] to `labels` uint8 [H, W] of the original image: each pixel's best class.

    With tiles, each one contributes its own part.
    """

    name: ClassVar[str] = "label_pixels"

    def __call__(self, arrays: Arrays, placement: Placement) -> Arrays:
        chosen = arrays["scores"].argmax(axis=1).astype(np.uint8)
        if not placement.windows:
            return {"labels": placement.labels(chosen[0])}
        labels = np.zeros(placement.frame, np.uint8)
        for one, window in zip(chosen, placement.windows, strict=True):
            rows, columns = slice(*window.rows), slice(*window.columns)
            labels[rows, columns] = one[
                window.rows[0] - window.top : window.rows[1] - window.top,
                window.columns[0] - window.left : window.columns[1] - window.left,
            ]
        return {"labels": placement.labels(labels)}


@built_in
@dataclass(frozen=True)
class ToPixels(Finishing):
    """Converts `picture` [1, C, H, W] to `image` uint8 [H, W, C], without padding: `low` becomes 0, `high` 255."""

    name: ClassVar[str] = "to_pixels"

    low: float = -1.0
    high: float = 1.0

    def __call__(self, arrays: Arrays, placement: Placement) -> Arrays:
        picture = arrays["picture"][0].transpose(1, 2, 0)[placement.visible()]
        scaled = (picture - np.float32(self.low)) * np.float32(255 / (self.high - self.low))
        return {"image": np.clip(np.round(scaled), 0, 255).astype(np.uint8)}

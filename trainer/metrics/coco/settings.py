"""The thresholds, area ranges and limits of an evaluation; the defaults are COCO's (pycocotools' `Params`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainer import TrainerError
from trainer.metrics.coco.columns import Kind

IOU_THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10).tolist())
RECALL_THRESHOLDS = tuple(np.linspace(0.0, 1.0, 101).tolist())

_SMALL, _MEDIUM, _ALL = 32.0**2, 96.0**2, 1e5**2
AREAS = {"all": (0.0, _ALL), "small": (0.0, _SMALL), "medium": (_SMALL, _MEDIUM), "large": (_MEDIUM, _ALL)}
"""Area ranges in square pixels, both ends included."""

KEYPOINT_SIGMAS = tuple(np.divide(
    [.26, .25, .25, .35, .35, .79, .79, .72, .72, .62, .62, 1.07, 1.07, .87, .87, .89, .89], 10.0,
).tolist())  # fmt: skip
"""The standard deviation of annotators for each of COCO's 17 keypoints of people, relative to object size."""


@dataclass(frozen=True)
class Settings:
    """The settings of an evaluation.

    Args:
        kind: `bbox`, `segm` or `keypoints`.
        use_categories: False: treat all objects as one category.
        iou_thresholds: minimum overlaps of a match (for keypoints: similarity).
        recall_thresholds: recalls at which the precision is evaluated, ascending.
        areas: names and ranges; the first is used for the main metrics.
        limits: maximum numbers of detections per image and category, ascending.
        sigmas: OKS constants, one per keypoint.
    """

    kind: Kind
    use_categories: bool = True
    iou_thresholds: tuple[float, ...] = IOU_THRESHOLDS
    recall_thresholds: tuple[float, ...] = RECALL_THRESHOLDS
    areas: tuple[tuple[str, tuple[float, float]], ...] = tuple(AREAS.items())
    limits: tuple[int, ...] = (1, 10, 100)
    sigmas: tuple[float, ...] = KEYPOINT_SIGMAS


def settings_of(kind: Kind, *, use_categories: bool = True, sigmas: Sequence[float] | None = None) -> Settings:
    """COCO's own settings for a kind; `sigmas` for keypoints other than COCO's."""
    if kind == "keypoints":  # keypoints of small people are not annotated
        if not use_categories:
            raise TrainerError(
                "keypoints are compared by category", hint="Categories differ in the number and meaning of keypoints."
            )
        areas = tuple((name, AREAS[name]) for name in ("all", "medium", "large"))
        return Settings(kind, areas=areas, limits=(20,), sigmas=tuple(sigmas or KEYPOINT_SIGMAS))
    return Settings(kind, use_categories=use_categories)

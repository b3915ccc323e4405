"""A data set and detections of COCO's size, generated from a fixed seed: 5,000 images, 36,000 ground-truth objects and
150,000 detections in 80 categories whose frequencies fall as 1/rank."""

from __future__ import annotations

import numpy as np
from pycocotools import mask as coding

from trainer.metrics.coco import Detections, Kind, Scene, Truths, area_of

IMAGES, TRUTHS, DETECTIONS, CATEGORIES = 5000, 36_000, 150_000, 80
HEIGHT, WIDTH = 480, 640
CORNERS = 24
"""Number of points of a mask's outline: COCO's average."""


def coco_scene(kind: Kind, seed: int = 0) -> tuple[Scene, Truths, Detections]:
    """Half of the detections are truths with noise of 8 % of their size (standard deviation), the others are random."""
    draws = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, CATEGORIES + 1)
    frequency /= frequency.sum()
    image, category = draws.integers(1, IMAGES + 1, TRUTHS), draws.choice(CATEGORIES, TRUTHS, p=frequency) + 1
    size = np.exp(draws.normal(3.8, 1.0, (TRUTHS, 2))).clip(4, 400)
    boxes = np.concatenate([draws.random((TRUTHS, 2)) * ([WIDTH, HEIGHT] - size).clip(1), size], axis=1).round(2)
    of = draws.integers(0, TRUTHS, DETECTIONS)
    is_near = draws.random(DETECTIONS) < 0.5
    moved = boxes[of] + draws.normal(0, 0.08, (DETECTIONS, 4)) * boxes[of][:, [2, 3, 2, 3]]
    found = np.where(is_near[:, None], moved, boxes[draws.integers(0, TRUTHS, DETECTIONS)]).round(2)
    found[:, :2] = found[:, :2].clip(0)
    found[:, 2:] = found[:, 2:].clip(1)
    is_right = is_near & (draws.random(DETECTIONS) < 0.9)
    columns = {"bbox": lambda boxes: {"boxes": boxes}, "segm": lambda boxes: {"masks": _outlined(boxes)}}[kind]
    theirs, ours = columns(boxes), columns(found)
    return (
        Scene(np.arange(1, IMAGES + 1), np.arange(1, CATEGORIES + 1), tuple(map(str, range(CATEGORIES)))),
        Truths(
            image, category, area_of(**theirs), draws.random(TRUTHS) < 0.01, **theirs,
            annotation=np.arange(1, TRUTHS + 1),
        ),
        Detections(
            np.where(is_near, image[of], draws.integers(1, IMAGES + 1, DETECTIONS)),
            np.where(is_right, category[of], draws.choice(CATEGORIES, DETECTIONS, p=frequency) + 1),
            (0.6 * draws.random(DETECTIONS) + 0.4 * is_near).round(3),
            area_of(**ours), **ours,
        ),
    )  # fmt: skip


def _outlined(boxes: np.ndarray) -> list[dict[str, object]]:
    """Returns a wavy ellipse in each box, as RLE."""
    angle = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
    radius = 0.5 - 0.08 * (1 + np.sin(5 * angle))
    shape = 0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = boxes[:, None, :2] + shape * boxes[:, None, 2:]
    return [coding.frPyObjects([outline], HEIGHT, WIDTH)[0] for outline in points.reshape(len(boxes), -1).tolist()]


def in_batches(scene: Scene, truths: Truths, detections: Detections, size: int = 50) -> list[dict[str, np.ndarray]]:
    """Returns the same boxes as a step passes them to the metric `coco`: batches of images, padded with class -1."""
    found = _by_image(scene, detections, score=detections.score.astype(np.float32))
    true = _by_image(scene, truths, area=truths.area.astype(np.float32), crowd=truths.crowd)
    names = {"image_id": scene.images, "classes": found["class"], "scores": found["score"], "boxes": found["boxes"],
             "true_classes": true["class"], "true_boxes": true["boxes"], "area": true["area"],
             "crowd": true["crowd"], "weight": np.ones(len(scene.images), np.float32)}  # fmt: skip
    return [{name: values[start : start + size] for name, values in names.items()}
            for start in range(0, len(scene.images), size)]  # fmt: skip


def _by_image(scene: Scene, rows: Truths | Detections, **columns: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the columns as [images, maximum number of objects per image, …]."""
    assert rows.boxes is not None
    columns["class"] = rows.category.astype(np.int32) - 1
    columns["boxes"] = np.concatenate([rows.boxes[:, :2], rows.boxes[:, :2] + rows.boxes[:, 2:]], axis=1).astype(
        np.float32
    )
    order = np.argsort(rows.image, kind="stable")
    image = np.searchsorted(scene.images, rows.image[order])
    place = np.arange(len(image)) - np.searchsorted(image, image)
    filled = {}
    for name, values in columns.items():
        shape = (len(scene.images), place.max() + 1, *values.shape[1:])
        filled[name] = np.full(shape, -1 if name == "class" else 0, values.dtype)
        filled[name][image, place] = values[order]
    return filled

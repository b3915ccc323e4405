"""Random scenes full of ties: few scores, boxes on a coarse grid, crowds, images and categories without anything."""

from __future__ import annotations

import numpy as np
from pycocotools import mask as coding

from trainer.metrics.coco import Detections, Kind, Scene, Truths, area_of

IMAGES, CATEGORIES, POINTS = np.array([3, 5, 8, 40, 41, 1000]), np.array([2, 7, 9, 90]), 17
SCENE = Scene(IMAGES, CATEGORIES, ("cat", "dog", "cow", "owl"))


def random_scene(
    seed: int, kind: Kind = "bbox", *, truths: int = 30, detections: int = 90
) -> tuple[Truths, Detections]:
    """Up to so many rows, in a random order; boxes cover the ranges small, medium and large and their edges."""
    draws = np.random.default_rng(seed)
    truths, detections = int(draws.integers(truths + 1)), int(draws.integers(detections + 1))
    images, categories = IMAGES[: draws.integers(1, 7)], CATEGORIES[: draws.integers(1, 5)]
    scores = draws.choice([0.1, 0.5, 0.9], detections) if seed % 2 else draws.random(detections)
    boxes, found = _boxes(draws, truths), _boxes(draws, detections)
    columns = {"bbox": _of_boxes, "segm": _of_masks, "keypoints": _of_points}[kind]
    return (
        Truths(
            draws.choice(images, truths),
            draws.choice(categories, truths),
            # An annotation's area is its own, not its box's.
            boxes[:, 2] * boxes[:, 3] * draws.choice([0.5, 1.0], truths),
            draws.random(truths) < 0.2,
            **columns(draws, boxes),
            annotation=draws.permutation(truths),  # 0 is among them
        ),
        Detections(
            draws.choice(images, detections),
            draws.choice(categories, detections),
            scores,
            area_of(**columns(np.random.default_rng(seed), found)),
            **columns(np.random.default_rng(seed), found),
        ),
    )


def _boxes(draws: np.random.Generator, count: int) -> np.ndarray:
    corner = 8.0 * draws.integers(0, 4, (count, 2))
    return np.concatenate([corner, draws.choice([0, 16, 24, 32, 64, 96, 128], (count, 2))], axis=1)


def _of_boxes(draws: np.random.Generator, boxes: np.ndarray) -> dict[str, object]:
    return {"boxes": boxes}


def _of_masks(draws: np.random.Generator, boxes: np.ndarray) -> dict[str, object]:
    """The boxes' pixels with holes, at an eighth of the size."""
    masks = []
    for x, y, width, height in (boxes / 8).astype(int).tolist():
        pixels = np.zeros((20, 24), np.uint8, order="F")
        pixels[y : y + height, x : x + width] = draws.random((20, 24))[y : y + height, x : x + width] < 0.9
        masks.append(coding.encode(pixels))
    return {"masks": masks}


def _of_points(draws: np.random.Generator, boxes: np.ndarray) -> dict[str, object]:
    """Points within the boxes, of which some aren't labeled; every fifth person has none."""
    where = boxes[:, None, :2] + boxes[:, None, 2:] * draws.integers(0, 3, (len(boxes), POINTS, 2)) / 2
    seen = draws.integers(0, 3, (len(boxes), POINTS)) * (np.arange(len(boxes)) % 5 > 0)[:, None]
    return {"boxes": boxes, "keypoints": np.concatenate([where, seen[:, :, None]], axis=2)}

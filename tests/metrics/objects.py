"""Objects found and true in a batch of images, as a step gives them, and pycocotools' figures of them."""

from __future__ import annotations

import numpy as np

from trainer.metrics.coco import Detections, Kind, Scene, Truths, area_of, evaluate

IMAGES, FOUND, TRUE, CLASSES, SIZE = 12, 9, 5, 3, (40, 48)


def batches(kind: Kind, seed: int = 0) -> dict[str, np.ndarray]:
    """One batch of images, filled up with objects of class -1, some in between."""
    random = np.random.default_rng(seed)
    true = np.sort(random.integers(0, 32, (IMAGES, TRUE, 2, 2)), axis=2).reshape(IMAGES, TRUE, 4).astype(np.float32)
    true[..., 2:] += 8
    of = random.integers(0, TRUE, (IMAGES, FOUND))
    found = np.take_along_axis(true, of[..., None], 1) + random.integers(-1, 2, (IMAGES, FOUND, 4)).astype(np.float32)
    found = found.clip(0, 40)
    true_classes = random.integers(-1, CLASSES, (IMAGES, TRUE))
    classes = np.where(random.random((IMAGES, FOUND)) < 0.8, np.take_along_axis(true_classes, of, 1), 1)
    given = {
        "image_id": random.permutation(1000)[:IMAGES],
        "classes": classes,
        "scores": random.choice([0.25, 0.5, 0.75], (IMAGES, FOUND)).astype(np.float32),
        "true_classes": true_classes,
        "crowd": random.random((IMAGES, TRUE)) < 0.2,
        "area": random.choice([100, 2000, 10000], (IMAGES, TRUE)).astype(np.float32),
        "boxes": found,
        "true_boxes": true,
    }
    if kind == "segm":
        y, x = np.mgrid[: SIZE[0], : SIZE[1]]
        for side in ("", "true_"):
            x0, y0, x1, y1 = np.moveaxis(given.pop(f"{side}boxes"), -1, 0)[..., None, None]
            given[f"{side}masks"] = (x >= x0) & (x < x1) & (y >= y0) & (y < y1) & ((x + y) % 5 > 0)
    if kind == "keypoints":
        for side in ("", "true_"):
            boxes = given[f"{side}boxes"]
            points = boxes[..., None, :2] + np.linspace(0, 8, 17, dtype=np.float32)[:, None]
            seen = np.broadcast_to(random.integers(0, 3, (*boxes.shape[:2], 17, 1)), (*points.shape[:3], 1))
            given[f"{side}keypoints"] = np.concatenate([points, seen], axis=-1).astype(np.float32)
    return given


def by_rows(given: dict[str, np.ndarray], kind: Kind, names: tuple[str, ...] = ("a", "b", "c")) -> dict[str, float]:
    """pycocotools' figures of the same objects."""
    from pycocotools import mask as coding

    def objects(side: str) -> tuple[np.ndarray, np.ndarray, dict[str, object]]:
        image, at = np.nonzero(given[f"{side}classes"] >= 0)
        columns: dict[str, object] = {}
        if kind == "segm":
            pixels = given[f"{side}masks"][image, at].astype(np.uint8)
            columns["masks"] = [coding.encode(np.asfortranarray(one)) for one in pixels]
        else:
            corners = given[f"{side}boxes"][image, at].astype(np.float64)
            columns["boxes"] = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
        if kind == "keypoints":
            columns["keypoints"] = given[f"{side}keypoints"][image, at].astype(np.float64)
        return image, at, columns

    image, at, columns = objects("")
    detections = Detections(
        given["image_id"][image], given["classes"][image, at], given["scores"][image, at].astype(np.float64),
        area_of(**columns), **columns,
    )  # fmt: skip
    image, at, columns = objects("true_")
    truths = Truths(
        given["image_id"][image], given["true_classes"][image, at], given["area"][image, at].astype(np.float64),
        given["crowd"][image, at], **columns,
    )  # fmt: skip
    scene = Scene(np.sort(given["image_id"]), np.arange(CLASSES), names)
    return evaluate(scene, truths, detections, kind=kind, evaluator="pycocotools").stats

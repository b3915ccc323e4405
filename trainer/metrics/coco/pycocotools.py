"""The same evaluation by pycocotools: the reference of the tests, and an option of the metric."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

from trainer.metrics.coco.columns import Detections, Scene, Truths
from trainer.metrics.coco.precision import Curves
from trainer.metrics.coco.settings import Settings


def evaluated(scene: Scene, truths: Truths, detections: Detections, settings: Settings) -> Curves:
    """Runs pycocotools' COCOeval on the columns without printing."""
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        run = COCOeval(as_dataset(scene, truths), as_dataset(scene, detections), settings.kind)
        run.params.useCats = int(settings.use_categories)
        run.params.iouThrs = np.asarray(settings.iou_thresholds)
        run.params.recThrs = np.asarray(settings.recall_thresholds)
        run.params.areaRng = [list(limits) for _, limits in settings.areas]
        run.params.areaRngLbl = [name for name, _ in settings.areas]
        run.params.maxDets = list(settings.limits)
        if settings.kind == "keypoints":
            run.params.kpt_oks_sigmas = np.asarray(settings.sigmas)
        run.evaluate()
        run.accumulate()
    images, areas = len(run.params.imgIds), len(settings.areas)
    categories = len(scene.categories) if settings.use_categories else 1
    counts = np.zeros((categories, areas), np.int64)
    for index, result in enumerate(run.evalImgs):  # by category, area range, image
        if result is not None:
            counts[index // (areas * images), index // images % areas] += np.count_nonzero(result["gtIgnore"] == 0)
    return Curves(run.eval["precision"], run.eval["scores"], run.eval["recall"], counts)


def as_dataset(scene: Scene, rows: Truths | Detections) -> Any:
    """A pycocotools `COCO` of the columns."""
    from pycocotools.coco import COCO

    dataset = COCO()
    dataset.dataset = {
        "images": [{"id": image} for image in scene.images.tolist()],
        "categories": [{"id": category} for category in scene.categories.tolist()],
        "annotations": [_annotation(rows, row) for row in range(len(rows))],
    }
    # Mask evaluation needs the size of the image, even for masks with a size.
    for image in dataset.dataset["images"]:
        image["height"] = image["width"] = 0
    dataset.createIndex()
    return dataset


def _annotation(rows: Truths | Detections, row: int) -> dict[str, Any]:
    annotation: dict[str, Any] = {
        "id": row + 1,
        "image_id": int(rows.image[row]),
        "category_id": int(rows.category[row]),
        "area": float(rows.area[row]),
        "iscrowd": 0,
    }
    if rows.boxes is not None:
        annotation["bbox"] = rows.boxes[row].tolist()
    if rows.masks is not None:
        annotation["segmentation"] = rows.masks[row]
    if rows.keypoints is not None:
        annotation["keypoints"] = rows.keypoints[row].reshape(-1).tolist()
    if isinstance(rows, Detections):
        return annotation | {"score": float(rows.score[row])}
    if rows.keypoints is not None:
        annotation["num_keypoints"] = int((rows.keypoints[row, :, 2] > 0).sum())
    identity = row + 1 if rows.annotation is None else int(rows.annotation[row])
    return annotation | {"iscrowd": int(rows.crowd[row]), "id": identity}

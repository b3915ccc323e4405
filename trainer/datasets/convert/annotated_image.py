"""An image with its boxes, independent of the format, read without decoding pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainer import TrainerError
from trainer.datasets.images import oriented_size
from trainer.datasets.paths import within
from trainer.datasets.readers.boxes import checked_boxes
from trainer.datasets.readers.coco import CocoDataset
from trainer.datasets.readers.voc import VocDataset
from trainer.datasets.readers.yolo import YoloDataset


@dataclass(frozen=True, slots=True, eq=False)
class Annotated:
    """One image and its N boxes: float64 [N, 4] of x_min, y_min, x_max, y_max in pixels, as written in the source.

    `lost` counts the annotations that are not converted: masks, keypoints.
    """

    image: Path
    name: str
    """Relative to the folder of the images."""
    size: tuple[int, int]
    boxes: np.ndarray
    labels: np.ndarray
    crowd: np.ndarray
    areas: np.ndarray
    """float64 [N]: the area in the annotation; NaN if the source has only the box."""
    lost: dict[str, int]


def of_coco(dataset: CocoDataset, index: int) -> Annotated:
    """Image `index` of a COCO file. Raises the errors of reading the item, except those of its pixels."""
    where, columns = dataset.source(index), dataset.index
    for problem in columns.problems.get(index, ()):
        raise TrainerError("invalid annotations of an image", where=where, found=problem)
    name = columns.file_names[index]
    path = within(dataset.folder, name, where)
    height, width = (int(extent) for extent in columns.sizes[index])
    size = (height, width) if height and width else oriented_size(path)
    here = columns.of_image(index)
    x, y, wide, high = columns.boxes[here].T
    boxes = np.stack([x, y, x + wide, y + high], axis=1)
    checked_boxes(boxes, size, where, [f"annotation {number}" for number in columns.ids[here]])
    own = np.abs(columns.areas[here] - wide * high) > 1e-6 * np.maximum(1, wide * high)
    return Annotated(
        path, name, size, boxes, columns.labels[here].astype(np.int64), columns.crowd[here],
        np.where(own, columns.areas[here], np.nan),
        {
            "masks": int((columns.segmentations[here, 1] > 2).sum()),
            "keypoints": int((columns.visible_keypoints[here] > 0).sum()),
        },
    )  # fmt: skip


def of_voc(dataset: VocDataset, index: int) -> Annotated:
    """Image `index` of Pascal VOC. Raises the errors of reading the item, except those of its pixels."""
    where, record = dataset.source(index), dataset.annotation(index)
    path = within(dataset.images, record.file_name, where)
    size = record.size or oriented_size(path)
    boxes = np.array(record.boxes, np.float64).reshape(-1, 4)
    if dataset.one_based:
        boxes[:, :2] -= 1
    checked_boxes(boxes, size, where, [f"object {number}" for number in range(len(boxes))])
    labels = dataset.labels_of(record, where)
    return Annotated(
        path, record.file_name, size, boxes, labels, np.array(record.difficult, bool), _no_areas(boxes), {}
    )


def of_yolo(dataset: YoloDataset, index: int) -> Annotated:
    """Image `index` of YOLO labels. Raises the errors of reading the item, except those of its pixels."""
    where, name = dataset.source(index), dataset.names[index]
    path = within(dataset.images, name, where)
    size = oriented_size(path)
    labels, shares = dataset.annotation(index)
    boxes = shares * np.array([size[1], size[0], size[1], size[0]])
    checked_boxes(boxes, size, where, [f"box {row}" for row in range(len(boxes))])
    return Annotated(path, name, size, boxes, labels, np.zeros(len(labels), bool), _no_areas(boxes), {})


def _no_areas(boxes: np.ndarray) -> np.ndarray:
    return np.full(len(boxes), np.nan)


READERS: dict[type, Callable[..., Annotated]] = {CocoDataset: of_coco, VocDataset: of_voc, YoloDataset: of_yolo}

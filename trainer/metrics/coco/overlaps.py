"""Overlaps of detections and truths: boxes, masks, keypoints. The arithmetic equals pycocotools bit for bit.

Pairs are created in blocks, and only those that reach the lowest threshold are kept (one or two per detection).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from trainer import TrainerError
from trainer.metrics.coco import masks
from trainer.metrics.coco.columns import Booleans, Floats, Integers, missing_column
from trainer.metrics.coco.groups import Grouped
from trainer.metrics.coco.settings import Settings

BLOCK = 1 << 16
"""Pairs per block: their arrays fit the second-level cache (twice as fast as 2^20 at once)."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Possible matches, sorted by detection and then truth: rows of a `Grouped`, and their overlaps."""

    detection: Integers
    truth: Integers
    overlap: Floats


def candidates(data: Grouped, settings: Settings, progress: Progress | None = None) -> Pairs:
    """All pairs of a detection and a truth of its group that overlap by at least the lowest threshold.

    `progress` receives the number of detections done and the total.
    """
    overlap = {"bbox": _boxes, "segm": masks.overlaps, "keypoints": _keypoints}[settings.kind](data, settings)
    least = min(*settings.iou_thresholds, 1 - 1e-10)
    parts = []
    for start, end, detection, truth in _blocks(data):
        values = overlap(detection, truth, least)
        kept = np.flatnonzero(values >= least)
        parts.append(Pairs(detection[kept], truth[kept], values[kept]))
        if progress is not None and end > start:
            progress(end, len(data.detections))
    return Pairs(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("detection", "truth", "overlap"))
    )


def _blocks(data: Grouped) -> Iterator[tuple[int, int, Integers, Integers]]:
    """Yields (first, last + 1) detection of each block and its pairs: about `BLOCK`, all of a detection together."""
    ends = np.cumsum(data.count)
    start = 0
    while True:
        done = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, done + BLOCK, side="right")))
        end = min(end, len(ends))
        count = data.count[start:end]
        detection = np.repeat(np.arange(start, end), count)
        truth = np.arange(len(detection)) + np.repeat(data.first[start:end] - (ends[start:end] - count - done), count)
        yield start, end, detection, truth
        start = end
        if start >= len(ends):
            return


Overlap = Callable[[Integers, Integers, float], Floats]


def _boxes(data: Grouped, settings: Settings) -> Overlap:
    ours, theirs, crowd = _column(data.detections.boxes), _column(data.truths.boxes), data.truths.crowd

    def overlap(detection: Integers, truth: Integers, least: float) -> Floats:
        return box_overlap(ours[detection], theirs[truth], crowd[truth])

    return overlap


def box_overlap(detection: Floats, truth: Floats, crowd: Booleans) -> Floats:
    """Intersection over union of boxes [N, 4] (x, y, width, height) for each row: `bbIou` of pycocotools' maskApi.c.

    For a crowd, the intersection is divided by the area of the detection.
    """
    dx, dy, dw, dh = detection.T
    tx, ty, tw, th = truth.T
    width = np.minimum(dw + dx, tw + tx) - np.maximum(dx, tx)
    height = np.minimum(dh + dy, th + ty) - np.maximum(dy, ty)
    shared, area = width * height, dw * dh
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = shared / np.where(crowd, area, area + tw * th - shared)
    return np.where((width > 0) & (height > 0), ratio, 0.0)


def _keypoints(data: Grouped, settings: Settings) -> Overlap:
    """Object keypoint similarity: the mean over the labeled keypoints of exp(-d² / (2 area (2 sigma)²)).

    For a truth without labeled keypoints, d is the distance of each keypoint from the truth's box, enlarged to twice
    its size.
    """
    ours, theirs, boxes = _column(data.detections.keypoints), _column(data.truths.keypoints), data.truths.boxes
    if boxes is None:
        raise missing_column("boxes")
    if not (len(settings.sigmas) == theirs.shape[1] == ours.shape[1]) and len(ours) and len(theirs):
        raise TrainerError(
            "different numbers of keypoints",
            found=f"{ours.shape[1]} per detection, {theirs.shape[1]} per truth, {len(settings.sigmas)} sigmas",
            expected="the same number",
            hint="Set `sigmas`, one per keypoint, for keypoints other than COCO's 17 of people.",
        )
    variances = (np.asarray(settings.sigmas) * 2) ** 2
    areas = data.truths.area + np.spacing(1)
    labeled: Booleans = np.greater(theirs[:, :, 2], 0)
    near, far = boxes[:, :2] - boxes[:, 2:], boxes[:, :2] + boxes[:, 2:] * 2

    def overlap(detection: Integers, truth: Integers, least: float) -> Floats:
        at, to, visible = ours[detection, :, :2], theirs[truth, :, :2], labeled[truth]
        some = np.asarray(visible.any(axis=1))
        outside = np.maximum(0, near[truth, None] - at) + np.maximum(0, at - far[truth, None])
        distance = np.where(some[:, None, None], at - to, outside)
        x, y = distance[:, :, 0], distance[:, :, 1]
        exponent = (x**2 + y**2) / variances / areas[truth, None] / 2
        used = np.where(some, visible.sum(axis=1), visible.shape[1])
        values = np.zeros(len(detection))
        # NumPy's sum depends on the number of summands: ignored values are removed first
        for number in np.unique(used).tolist():
            rows = np.flatnonzero(used == number)
            picked = exponent[rows] if number == visible.shape[1] else exponent[rows][visible[rows]].reshape(-1, number)
            values[rows] = np.exp(-picked).sum(axis=1) / number
        return values

    return overlap


def _column(column: Floats | None) -> Floats:
    if column is None:
        raise missing_column("boxes or keypoints")
    return column

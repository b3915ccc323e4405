"""How much a detection and a truth overlap: of boxes, of masks, of keypoints. The arithmetic is pycocotools', bit for bit.

Pairs are made a block at a time and only those that reach the lowest threshold are kept: most don't, and those that do
are few enough to hold (a detection has one or two).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from trainer import TrainerError
from trainer.metrics.coco.columns import Booleans, Floats, Integers, Mask
from trainer.metrics.coco.groups import Grouped
from trainer.metrics.coco.settings import Settings

BLOCK = 1 << 16
"""Pairs that are looked at together: their arrays stay in the second-level cache (1.6 times as fast as 2^20)."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs whose overlap may make a match, sorted by detection and then truth: rows of a `Grouped`, and the overlap."""

    detection: Integers
    truth: Integers
    overlap: Floats


def candidates(data: Grouped, settings: Settings, progress: Progress | None = None) -> Pairs:
    """All pairs of a detection and a truth of its group that overlap by the lowest threshold or more.

    `progress` is handed how many detections are done, and how many there are.
    """
    overlap = {"bbox": _boxes, "segm": _masks, "keypoints": _keypoints}[settings.kind](data, settings)
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
    """(first, last + 1) detection of a block, and its pairs: about `BLOCK`, whole detections each."""
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
    """Intersection over union of boxes [N, 4] (x, y, width, height) row by row: `bbIou` of pycocotools' maskApi.c.

    Against a crowd the intersection is divided by the detection's own area.
    """
    dx, dy, dw, dh = detection.T
    tx, ty, tw, th = truth.T
    width = np.minimum(dw + dx, tw + tx) - np.maximum(dx, tx)
    height = np.minimum(dh + dy, th + ty) - np.maximum(dy, ty)
    shared, area = width * height, dw * dh
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = shared / np.where(crowd, area, area + tw * th - shared)
    return np.where((width > 0) & (height > 0), ratio, 0.0)


def _masks(data: Grouped, settings: Settings) -> Overlap:
    """Masks are compared in C by pycocotools, a group at a time, and only those that may reach the threshold.

    The intersection is at most that of the rectangles around two masks, and either mask's area: most pairs end there.
    """
    from pycocotools import mask as coding

    ours, theirs = data.detections.masks, data.truths.masks
    if ours is None or theirs is None:
        raise _missing("masks")
    _check_sizes(data, ours, theirs)
    boxes = [np.asarray(coding.toBbox(masks), np.float64).reshape(-1, 4) for masks in (ours, theirs)]
    areas = [np.asarray(coding.area(masks), np.float64).reshape(-1) for masks in (ours, theirs)]
    crowd = data.truths.crowd

    def overlap(detection: Integers, truth: Integers, least: float) -> Floats:
        (dx, dy, dw, dh), (tx, ty, tw, th) = boxes[0][detection].T, boxes[1][truth].T
        width = np.minimum(dw + dx, tw + tx) - np.maximum(dx, tx)
        height = np.minimum(dh + dy, th + ty) - np.maximum(dy, ty)
        area, other = areas[0][detection], areas[1][truth]
        shared = np.minimum(np.minimum(area, other), width.clip(0) * height.clip(0))
        union = np.where(crowd[truth], area, area + other - shared)
        possible = np.flatnonzero((shared > 0) & (shared >= least * union))
        values = np.zeros(len(detection))
        values[possible] = _mask_overlaps(ours, theirs, crowd, detection[possible], truth[possible], data.group)
        return values

    return overlap


def _mask_overlaps(
    ours: list[Mask], theirs: list[Mask], crowd: Booleans, detection: Integers, truth: Integers, group: Integers
) -> Floats:
    """The overlaps of some pairs, sorted by group: a call for each group over its detections and truths in question."""
    from pycocotools import mask as coding

    values = np.zeros(len(detection))
    begins = np.flatnonzero(np.diff(group[detection], prepend=-1)).tolist()
    for begin, end in zip(begins, [*begins[1:], len(detection)], strict=True):
        rows, row = np.unique(detection[begin:end], return_inverse=True)
        columns, column = np.unique(truth[begin:end], return_inverse=True)
        table = coding.iou([ours[at] for at in rows], [theirs[at] for at in columns], crowd[columns].tolist())
        values[begin:end] = table[row, column]
    return values


def _keypoints(data: Grouped, settings: Settings) -> Overlap:
    """Object keypoint similarity: the mean over the labelled keypoints of exp(-d² / (2 area (2 sigma)²)).

    For a truth without a labelled one, d is how far each keypoint lies outside the truth's box, doubled on every side.
    """
    ours, theirs, boxes = _column(data.detections.keypoints), _column(data.truths.keypoints), data.truths.boxes
    if boxes is None:
        raise _missing("boxes")
    if not (len(settings.sigmas) == theirs.shape[1] == ours.shape[1]) and len(ours) and len(theirs):
        raise TrainerError(
            "the numbers of keypoints differ",
            found=f"{ours.shape[1]} a detection, {theirs.shape[1]} a truth, {len(settings.sigmas)} sigmas",
            expected="one number",
            hint="Give `sigmas`, one a keypoint, for keypoints other than COCO's 17 of a person.",
        )
    variances = (np.asarray(settings.sigmas) * 2) ** 2
    areas = data.truths.area + np.spacing(1)
    labelled = theirs[:, :, 2] > 0
    near, far = boxes[:, :2] - boxes[:, 2:], boxes[:, :2] + boxes[:, 2:] * 2

    def overlap(detection: Integers, truth: Integers, least: float) -> Floats:
        at, to, seen = ours[detection, :, :2], theirs[truth, :, :2], labelled[truth]
        some = seen.any(axis=1)
        outside = np.maximum(0, near[truth, None] - at) + np.maximum(0, at - far[truth, None])
        distance = np.where(some[:, None, None], at - to, outside)
        x, y = distance[:, :, 0], distance[:, :, 1]
        exponent = (x**2 + y**2) / variances / areas[truth, None] / 2
        used = np.where(some, seen.sum(axis=1), seen.shape[1])
        values = np.zeros(len(detection))
        # NumPy's sum adds in an order that depends on how many there are, so the numbers that don't count are taken out.
        for number in np.unique(used).tolist():
            rows = np.flatnonzero(used == number)
            picked = exponent[rows] if number == seen.shape[1] else exponent[rows][seen[rows]].reshape(-1, number)
            values[rows] = np.exp(-picked).sum(axis=1) / number
        return values

    return overlap


def _column(column: Floats | None) -> Floats:
    if column is None:
        raise _missing("boxes or keypoints")
    return column


def _missing(what: str) -> TrainerError:
    return TrainerError(f"this kind of evaluation needs the column {what} of truths and detections")


def _check_sizes(data: Grouped, ours: list[Mask], theirs: list[Mask]) -> None:
    """The masks of an image have one size: pycocotools takes two that differ for no match, without a word."""
    images = np.concatenate([data.truths.image, data.detections.image])
    sizes = np.array([mask["size"] for mask in [*theirs, *ours]], np.int64).reshape(-1, 2)
    _, first, place = np.unique(images, return_index=True, return_inverse=True)
    wrong = np.flatnonzero((sizes != sizes[first][place]).any(axis=1))
    if len(wrong):
        row = int(wrong[0])
        what = "truth" if row < len(theirs) else "detection"
        raise TrainerError(
            "masks of one image have different sizes",
            where=f"a {what} in image {images[row]}",
            found=f"height and width {sizes[row].tolist()}",
            expected=sizes[first][place][row].tolist(),
        )

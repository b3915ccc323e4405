"""Overlaps of masks: pycocotools' C code, called only for pairs that can reach the threshold."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from trainer import TrainerError
from trainer.metrics.coco.columns import Booleans, Floats, Integers, Mask, missing_column
from trainer.metrics.coco.groups import Grouped
from trainer.metrics.coco.settings import Settings

TOGETHER = 255
"""Number of masks per call for areas: pycocotools 2.0.11 can't take more."""


def mask_areas(masks: list[Mask]) -> Floats:
    """Pixels in each mask, float64 [N]."""
    from pycocotools import mask as coding

    areas = [coding.area(masks[start : start + TOGETHER]) for start in range(0, len(masks), TOGETHER)]
    return np.concatenate([np.zeros(0), *areas])


def overlaps(data: Grouped, settings: Settings) -> Callable[[Integers, Integers, float], Floats]:
    """Computes the overlaps of pairs; 0 for pairs that can't reach the threshold.

    The intersection is at most that of the two bounding boxes, and at most either area; this excludes most pairs.
    """
    ours, theirs = data.detections.masks, data.truths.masks
    if ours is None or theirs is None:
        raise missing_column("masks")
    _check_sizes(data, ours, theirs)
    crowd = data.truths.crowd
    is_met = np.zeros(len(theirs) + 1, np.int64)  # per truth: whether its group has a detection
    np.add.at(is_met, data.first, 1)
    np.add.at(is_met, data.first + data.count, -1)
    their_boxes, their_areas = _extents(theirs, np.cumsum(is_met)[:-1] > 0)
    our_boxes, our_areas = _extents(ours, data.count > 0)

    def overlap(detection: Integers, truth: Integers, least: float) -> Floats:
        (dx, dy, dw, dh), (tx, ty, tw, th) = our_boxes[detection].T, their_boxes[truth].T
        width = np.minimum(dw + dx, tw + tx) - np.maximum(dx, tx)
        height = np.minimum(dh + dy, th + ty) - np.maximum(dy, ty)
        area, other = our_areas[detection], their_areas[truth]
        shared = np.minimum(np.minimum(area, other), width.clip(0) * height.clip(0))
        union = np.where(crowd[truth], area, area + other - shared)
        possible = np.flatnonzero((shared > 0) & (shared >= least * union))
        values = np.zeros(len(detection))
        values[possible] = _compared(ours, theirs, crowd, data, detection[possible], truth[possible])
        return values

    return overlap


def _extents(masks: list[Mask], is_needed: Booleans) -> tuple[Floats, Floats]:
    """The bounding box of each mask, [N, 4], and its area; 0 for masks that are not needed."""
    from pycocotools import mask as coding

    boxes, areas = np.zeros((len(masks), 4)), np.zeros(len(masks))
    rows = np.flatnonzero(is_needed)
    if len(rows):
        chosen = [masks[row] for row in rows.tolist()]
        boxes[rows], areas[rows] = coding.toBbox(chosen), mask_areas(chosen)
    return boxes, areas


def _compared(
    ours: list[Mask], theirs: list[Mask], crowd: Booleans, data: Grouped, detection: Integers, truth: Integers
) -> Floats:
    """The overlaps of pairs, sorted by detection: one call per group, over all its truths."""
    from pycocotools import mask as coding

    values = np.zeros(len(detection))
    is_next = np.diff(detection, prepend=-1) > 0
    edges = [*np.flatnonzero(np.diff(data.group[detection], prepend=-1)).tolist(), len(detection)]
    row, column = np.cumsum(is_next) - 1, truth - data.first[detection]
    number, firsts, counts = row.tolist(), data.first[detection].tolist(), data.count[detection].tolist()
    rows = detection[is_next].tolist()
    is_crowd = crowd.tolist()
    for begin, end in itertools.pairwise(edges):
        first, last = number[begin], number[end - 1] + 1
        group = slice(firsts[begin], firsts[begin] + counts[begin])
        table = coding.iou([ours[at] for at in rows[first:last]], theirs[group], is_crowd[group])
        values[begin:end] = table[row[begin:end] - first, column[begin:end]]
    return values


def _check_sizes(data: Grouped, ours: list[Mask], theirs: list[Mask]) -> None:
    """Checks that the masks of an image have one size: pycocotools silently treats different sizes as no match."""
    sizes: dict[int, list[int]] = {}
    for what, images, masks in (("truth", data.truths.image, theirs), ("detection", data.detections.image, ours)):
        for image, mask in zip(images.tolist(), masks, strict=True):
            if (size := sizes.setdefault(image, mask["size"])) != mask["size"]:
                raise TrainerError(
                    "masks of one image have different sizes",
                    where=f"a {what} in image {image}",
                    found=f"height and width {mask['size']}",
                    expected=size,
                )

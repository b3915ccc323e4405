"""The objects of an item: the fields that have a row for each, moved, clipped and dropped together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import FIELDS, OBJECTS, Item, signature

ROWS = tuple(field.name for field in FIELDS.values() if field.axes[:1] == (OBJECTS,))
"""The fields with a row for each object."""


def keep(item: Item, which: np.ndarray) -> Item:
    """The item with those objects only: `which` is bool [N] or indices."""
    return {**item, **{name: item[name][which] for name in ROWS if name in item}}


def joined(items: Sequence[Item]) -> dict[str, np.ndarray]:
    """The object fields of all items, one after the other.

    Raises:
        TrainerError: the items don't have the same object fields.
    """
    names = [name for name in ROWS if name in items[0]]
    for item in items:
        if [name for name in ROWS if name in item] != names:
            raise TrainerError(
                "items to be mixed have different fields",
                found=signature({name: item[name] for name in ROWS if name in item}),
                expected=signature({name: items[0][name] for name in names}),
            )
    return {name: np.concatenate([item[name] for item in items]) for name in names}


def areas(boxes: np.ndarray) -> np.ndarray:
    """float64 [N]: the areas of boxes [N, 4]; 0 for those whose ends are the wrong way round."""
    extents = np.maximum(boxes[:, 2:].astype(np.float64) - boxes[:, :2], 0)
    return extents[:, 0] * extents[:, 1]


def moved(item: Item, matrix: np.ndarray, size: tuple[int, int], *, min_visible: float | None) -> Item:
    """The objects under a projective map [3, 3] of the plane, in an image of `size`; `masks` are not looked at here.

    A box becomes the box around its four corners, clipped to the image. `area` follows the box's: by how the map
    changes it, and by the share that clipping leaves. Keypoints outside of the image become (0, 0, 0).

    Args:
        min_visible: objects of which less than this share of the box, or nothing, is left are dropped; None: all stay.
    """
    changed = dict(item)
    if "keypoints" in item and len(item["keypoints"]):
        changed["keypoints"] = _moved_keypoints(item["keypoints"], matrix, size)
    boxes = item.get("boxes")
    if boxes is None or len(boxes) == 0:
        return changed
    corners = mapped(matrix, boxes[:, (0, 1, 2, 1, 2, 3, 0, 3)].reshape(-1, 4, 2).astype(np.float64))
    around = np.concatenate([corners.min(1), corners.max(1)], axis=1)
    changed["boxes"] = clipped = clip(around, size)
    whole, left = areas(around), areas(clipped)
    if "area" in item:
        before = areas(boxes)
        share = np.divide(left, whole, out=np.zeros_like(left), where=whole > 0)
        growth = np.divide(_quadrilaterals(corners), before, out=np.ones_like(before), where=before > 0)
        changed["area"] = (item["area"] * growth * share).astype(np.float32)
    if min_visible is None:
        return changed
    stays = (left > 0) & (left >= min_visible * whole)
    return changed if stays.all() else keep(changed, stays)


def clip(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """float32 [N, 4]: the boxes cut to an image of `size` (height, width)."""
    height, width = size
    return np.clip(boxes, 0, (width, height, width, height)).astype(np.float32)


def mapped(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points float64 [..., 2] (x, y) under a projective map [3, 3]."""
    result = points @ matrix[:2, :2].T + matrix[:2, 2]
    if matrix[2, 0] or matrix[2, 1]:
        result /= (points @ matrix[2, :2] + matrix[2, 2])[..., None]
    return result


def without_hidden(item: Item, hidden: np.ndarray, *, min_visible: float) -> Item:
    """The item without the objects of which `hidden` (bool [H, W]) covers more than 1 - `min_visible`.

    Objects with `masks` lose what is hidden, their boxes shrink to what is left and their areas with it; boxes without
    masks stay whole.
    """
    boxes = item.get("boxes")
    if boxes is None or len(boxes) == 0:
        return item
    changed = dict(item)
    if "masks" in item:
        before = item["masks"].sum((1, 2))
        changed["masks"] = masks = item["masks"] & ~hidden
        share = np.divide(masks.sum((1, 2)), before, out=np.zeros(len(masks)), where=before > 0)
        lost = (share < 1) & (share > 0)
        changed["boxes"] = boxes.copy()
        changed["boxes"][lost] = [around_mask(mask) for mask in masks[lost]]
        if "area" in item:
            changed["area"] = (item["area"] * share).astype(np.float32)
    else:
        share = np.array([_seen(hidden, box) for box in boxes])
    return keep(changed, (share > 0) & (share >= min_visible))


def around_mask(mask: np.ndarray) -> np.ndarray:
    """float32 [4]: the box around the pixels of a mask [H, W] that has some."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], np.float32)


def rows_of(item: Mapping[str, np.ndarray]) -> int:
    """How many objects an item has."""
    return next((len(item[name]) for name in ROWS if name in item), 0)


def _seen(hidden: np.ndarray, box: np.ndarray) -> float:
    """The share of a box's pixels that are not hidden."""
    left, top = np.floor(box[:2]).astype(int)
    right, bottom = np.ceil(box[2:]).astype(int)
    inside = hidden[top:bottom, left:right]
    return 1 - float(inside.mean()) if inside.size else 0.0


def _moved_keypoints(keypoints: np.ndarray, matrix: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    result = keypoints.copy()
    result[..., :2] = mapped(matrix, keypoints[..., :2].astype(np.float64))
    x, y = result[..., 0], result[..., 1]
    is_seen = (keypoints[..., 2] > 0) & (x >= 0) & (y >= 0) & (x <= size[1]) & (y <= size[0])
    result[~is_seen] = 0
    return result


def _quadrilaterals(corners: np.ndarray) -> np.ndarray:
    """float64 [N]: the areas of [N, 4, 2] corners in order (the shoelace formula)."""
    x, y = corners[..., 0], corners[..., 1]
    return 0.5 * np.abs((x * np.roll(y, -1, 1) - y * np.roll(x, -1, 1)).sum(1))

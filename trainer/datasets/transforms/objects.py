"""The objects of an item: the fields with one row per object, transformed, clipped and dropped together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import CLASSES, FIELDS, HEIGHT, OBJECTS, WIDTH, Item

ROWS = tuple(field.name for field in FIELDS.values() if field.axes[:1] == (OBJECTS,))
"""The fields with one row per object."""

_MIXED = (OBJECTS, HEIGHT, CLASSES)


def keep(item: Item, which: np.ndarray) -> Item:
    """The item with the selected objects: `which` is bool [N] or indices."""
    return {**item, **{name: item[name][which] for name in ROWS if name in item}}


def joined(items: Sequence[Item]) -> dict[str, np.ndarray]:
    """The concatenated object fields of all items; rejects items as `check_alike` does."""
    check_alike(items)
    return {name: np.concatenate([item[name] for item in items]) for name in ROWS if name in items[0]}


def check_alike(items: Sequence[Item]) -> None:
    """Checks that items can be mixed.

    Raises:
        TrainerError: the items differ in their fields of pixels, objects and soft labels, in dtypes, or in extents
            other than sizes and numbers of objects.
    """
    kinds = [_kinds(item) for item in items]
    for kind in kinds:
        if kind != kinds[0]:
            raise TrainerError(
                "items to be mixed have different forms", found=kind, expected=f"{kinds[0]}, as in the first item"
            )


def _kinds(item: Item) -> str:
    """The fields that are mixed, each with its dtype and the extents that must be equal."""
    kinds = []
    for name, field in FIELDS.items():
        if name in item and any(axis in _MIXED for axis in field.axes):
            extents = [
                extent
                for axis, extent in zip(field.axes, item[name].shape, strict=True)
                if axis not in (HEIGHT, WIDTH, OBJECTS)
            ]
            kinds.append(f"{name} {item[name].dtype}{extents or ''}")
    return ", ".join(kinds)


def placement(size: tuple[int, int], shape: Sequence[int]) -> np.ndarray:
    """The field `placement` of an item: maps an image of this shape to its file's image of `size` (height, width)."""
    return np.diag([size[1] / shape[1], size[0] / shape[0], 1.0]).astype(np.float32)


def areas(boxes: np.ndarray) -> np.ndarray:
    """float64 [N]: the areas of boxes [N, 4]; 0 for inverted boxes."""
    extents = np.maximum(boxes[:, 2:].astype(np.float64) - boxes[:, :2], 0)
    return extents[:, 0] * extents[:, 1]


def moved(item: Item, matrix: np.ndarray, size: tuple[int, int], *, min_visible: float | None) -> Item:
    """Applies a projective map [3, 3] to the objects, in an image of `size`; `masks` are already transformed.

    A box becomes the box around its four corners, clipped to the image. `area` changes in proportion to the box,
    including clipping. Keypoints outside of the image become (0, 0, 0). `placement` is composed with the inverse map.

    Args:
        min_visible: objects with a smaller remaining fraction of the box, or with an empty box or mask, are dropped;
            None: all are kept.
    """
    changed = dict(item)
    if "placement" in item:
        changed["placement"] = (item["placement"] @ np.linalg.inv(matrix)).astype(np.float32)
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
    if "masks" in item:
        stays &= item["masks"].any((1, 2))
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


def shrunk(item: Item) -> Item:
    """Moves each side of a box to the edge of its mask if the side is more than a pixel outside."""
    if "masks" not in item or "boxes" not in item or len(item["boxes"]) == 0:
        return item
    boxes, around = item["boxes"], np.stack([around_mask(mask) for mask in item["masks"]])
    inwards = (around - boxes) * np.array([1, 1, -1, -1], np.float32)
    tight = np.where(inwards > 1, around, boxes)
    has_area = np.all(tight[:, 2:] > tight[:, :2], axis=1, keepdims=True)  # false if the mask is outside of its box
    return {**item, "boxes": np.where(has_area, tight, boxes)}


def without_hidden(item: Item, hidden: np.ndarray, *, min_visible: float) -> Item:
    """Removes objects if `hidden` (bool [H, W]) covers a fraction of more than 1 - `min_visible`.

    Hidden pixels are removed from `masks`, and boxes and areas shrink accordingly; boxes without masks are unchanged.
    """
    boxes = item.get("boxes")
    if boxes is None or len(boxes) == 0:
        return item
    changed = dict(item)
    if "masks" in item:
        before = item["masks"].sum((1, 2))
        changed["masks"] = masks = item["masks"] & ~hidden
        share = np.divide(masks.sum((1, 2)), before, out=np.zeros(len(masks)), where=before > 0)
        changed["boxes"] = boxes.copy()
        for row in np.flatnonzero((share < 1) & (share > 0)):
            changed["boxes"][row] = around_mask(masks[row])
        if "area" in item:
            changed["area"] = (item["area"] * share).astype(np.float32)
    else:
        share = np.array([_visible_fraction(hidden, box) for box in boxes])
    return keep(changed, (share > 0) & (share >= min_visible))


def around_mask(mask: np.ndarray) -> np.ndarray:
    """float32 [4]: the bounding box of a nonempty mask [H, W]."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], np.float32)


def _visible_fraction(hidden: np.ndarray, box: np.ndarray) -> float:
    """The fraction of a box's pixels that are not hidden."""
    left, top = np.floor(box[:2]).astype(int)
    right, bottom = np.ceil(box[2:]).astype(int)
    inside = hidden[top:bottom, left:right]
    return 1 - float(inside.mean()) if inside.size else 0.0


def _moved_keypoints(keypoints: np.ndarray, matrix: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    result = keypoints.copy()
    result[..., :2] = mapped(matrix, keypoints[..., :2].astype(np.float64))
    x, y = result[..., 0], result[..., 1]
    is_visible = (keypoints[..., 2] > 0) & (x >= 0) & (y >= 0) & (x <= size[1]) & (y <= size[0])
    result[~is_visible] = 0
    return result


def _quadrilaterals(corners: np.ndarray) -> np.ndarray:
    """float64 [N]: the areas of [N, 4, 2] corners in order (the shoelace formula)."""
    x, y = corners[..., 0], corners[..., 1]
    return 0.5 * np.abs((x * np.roll(y, -1, 1) - y * np.roll(x, -1, 1)).sum(1))

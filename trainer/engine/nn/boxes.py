"""Overlaps of boxes, losses based on them, and non-maximum suppression, as in torchvision.

Boxes are [..., 4]: x_min, y_min, x_max, y_max.
"""

from __future__ import annotations

import math

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.autocast import widened
from trainer.engine.nn.losses import reduced
from trainer.engine.tensor import Tensor

EPSILON = 1e-7
"""Added to divisors: two boxes without area have an IoU of 0."""


def box_area(boxes: Tensor) -> Tensor:
    """Returns width times height, [...]."""
    x_min, y_min, x_max, y_max = _sides("box_area", boxes)
    return (x_max - x_min) * (y_max - y_min)


def box_iou(boxes: Tensor, others: Tensor) -> Tensor:
    """Intersection over union of `boxes` [..., N, 4] and `others` [..., M, 4]: [..., N, M]; 0 where both are empty."""
    rows, columns = functions.expand_dims(boxes, axis=-2), functions.expand_dims(others, axis=-3)
    shared, union = _shared(rows, columns)
    return functions.where(union > 0, shared / functions.where(union > 0, union, 1), 0)


def box_iou_loss(
    boxes: Tensor, targets: Tensor, *, reduction: str = "none", sample_weight: Tensor | None = None
) -> Tensor:
    """1 − IoU of boxes with their targets, both [N, ..., 4]; [N, ...]."""
    shared, union = _shared(*_checked("box_iou_loss", boxes, targets))
    return reduced(1 - shared / (union + EPSILON), None, reduction, sample_weight)


def generalized_box_iou_loss(
    boxes: Tensor, targets: Tensor, *, reduction: str = "none", sample_weight: Tensor | None = None
) -> Tensor:
    """1 − GIoU of boxes with their targets, both [N, ..., 4] (Rezatofighi et al. 2019).

    GIoU is the IoU minus the share of the smallest enclosing box that neither box covers, so that disjoint boxes have a
    gradient too.
    """
    boxes, targets = _checked("generalized_box_iou_loss", boxes, targets)
    shared, union = _shared(boxes, targets)
    width, height = _around(boxes, targets)
    around = width * height
    giou = shared / (union + EPSILON) - (around - union) / (around + EPSILON)
    return reduced(1 - giou, None, reduction, sample_weight)


def distance_box_iou_loss(
    boxes: Tensor, targets: Tensor, *, reduction: str = "none", sample_weight: Tensor | None = None
) -> Tensor:
    """1 − DIoU of boxes with their targets, both [N, ..., 4] (Zheng et al. 2020).

    DIoU is the IoU minus the squared distance between the centers, divided by the squared diagonal of the smallest
    enclosing box.
    """
    boxes, targets = _checked("distance_box_iou_loss", boxes, targets)
    shared, union = _shared(boxes, targets)
    width, height = _around(boxes, targets)
    one, other = _sides("boxes", boxes), _sides("targets", targets)
    across = (one[0] + one[2] - other[0] - other[2]) / 2
    down = (one[1] + one[3] - other[1] - other[3]) / 2
    distance = (across * across + down * down) / (width * width + height * height + EPSILON)
    return reduced(1 - shared / (union + EPSILON) + distance, None, reduction, sample_weight)


def complete_box_iou_loss(
    boxes: Tensor, targets: Tensor, *, reduction: str = "none", sample_weight: Tensor | None = None
) -> Tensor:
    """1 − CIoU of boxes with their targets, both [N, ..., 4] (Zheng et al. 2020).

    CIoU is the DIoU minus α·v. v is (2/π)² times the squared difference of arctan(width / height). The gradient treats
    α = v / (1 − IoU + v) as a constant.
    """
    boxes, targets = _checked("complete_box_iou_loss", boxes, targets)
    shared, union = _shared(boxes, targets)
    one, other = _sides("boxes", boxes), _sides("targets", targets)
    (width, height), (right_width, right_height) = ((x[2] - x[0], x[3] - x[1]) for x in (one, other))
    across, along = width * right_height - right_width * height, height * right_height + width * right_width
    quotient = across / functions.where(along > 0, along, 1)  # from products, to avoid dividing by a side of a box
    angle = functions.atan(quotient)
    v = angle * angle * (4 / math.pi**2)
    alpha = functions.stop_gradient(v / (1 - shared / (union + EPSILON) + v + EPSILON))
    return reduced(distance_box_iou_loss(boxes, targets) + alpha * v, None, reduction, sample_weight)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, *, classes: Tensor | None = None) -> Tensor:
    """Greedy non-maximum suppression: returns whether each box is kept, bool [..., N], in input order.

    Boxes are visited by descending score (equal scores in input order). A box is dropped if its IoU with a kept box is
    above `iou_threshold`; with `classes`, only boxes of the same class suppress each other. It is part of the graph and
    handles each image of a batch separately, with O(N²) comparisons, so pass only the best few hundred boxes.

    Args:
        boxes, scores, classes: [..., N, 4], [..., N], [..., N].
    """
    _sides("nms", boxes)
    if scores.shape != boxes.shape[:-1] or (classes is not None and classes.shape != scores.shape):
        found = f"boxes {boxes.shape}, scores {scores.shape}" + (
            "" if classes is None else f", classes {classes.shape}"
        )
        raise TrainerError("nms: boxes and scores don't match", found=found)
    order = functions.argsort(scores, descending=True)
    ranked = functions.take_along_axis(
        boxes, functions.broadcast_to(functions.expand_dims(order, axis=-1), boxes.shape), axis=-2
    )
    overlaps = box_iou(ranked, ranked) > iou_threshold
    if classes is not None:
        labels = functions.take_along_axis(classes, order, axis=-1)
        overlaps = overlaps & (functions.expand_dims(labels, axis=-1) == functions.expand_dims(labels, axis=-2))
    return functions.take_along_axis(functions.suppress(overlaps), functions.argsort(order), axis=-1)


def _checked(name: str, boxes: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if boxes.shape != targets.shape:
        raise TrainerError(f"{name} compares boxes in pairs", found=f"{boxes.shape} and {targets.shape}")
    _sides(name, boxes)
    return widened(boxes), widened(targets)


def _sides(name: str, boxes: Tensor) -> tuple[Tensor, ...]:
    if boxes.ndim < 1 or boxes.shape[-1] != 4:
        raise TrainerError(f"{name} takes boxes of four numbers", found=f"shape {boxes.shape}", expected="[..., 4]")
    return tuple(boxes[..., side] for side in range(4))


def _shared(boxes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the areas of intersection and union; `boxes` and `others` broadcast."""
    one, other = _sides("boxes", boxes), _sides("boxes", others)
    width = functions.minimum(one[2], other[2]) - functions.maximum(one[0], other[0])
    height = functions.minimum(one[3], other[3]) - functions.maximum(one[1], other[1])
    shared = functions.where((width > 0) & (height > 0), width * height, 0)
    return shared, box_area(boxes) + box_area(others) - shared


def _around(boxes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Returns width and height of the smallest box that encloses both."""
    one, other = _sides("boxes", boxes), _sides("boxes", others)
    width = functions.maximum(one[2], other[2]) - functions.minimum(one[0], other[0])
    height = functions.maximum(one[3], other[3]) - functions.minimum(one[1], other[1])
    return width, height

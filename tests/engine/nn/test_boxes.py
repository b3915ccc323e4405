"""Overlaps of boxes, their losses and suppression, and focal losses, against the papers' formulas in NumPy float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.targets.cpu.device import CpuDevice

Plain = Callable[[np.ndarray, np.ndarray], np.ndarray]


def some_boxes(seed: int, *shape: int) -> np.ndarray:
    """Boxes of 2 to 10 a side in a square of 20, float64 [*shape, 4]."""
    random = np.random.default_rng(seed)
    corner = random.uniform(0, 14, (*shape, 2))
    return np.concatenate([corner, corner + random.uniform(2, 10, (*shape, 2))], axis=-1)


def iou_of(one: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """IoU, union, and area of the smallest box around both, of two boxes."""
    shared = max(0.0, min(one[2], other[2]) - max(one[0], other[0])) * max(
        0.0, min(one[3], other[3]) - max(one[1], other[1])
    )
    union = (one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1]) - shared
    around = (max(one[2], other[2]) - min(one[0], other[0])) * (max(one[3], other[3]) - min(one[1], other[1]))
    return shared / union, union, around


def giou_of(one: np.ndarray, other: np.ndarray) -> float:
    iou, union, around = iou_of(one, other)
    return iou - (around - union) / around


def diou_of(one: np.ndarray, other: np.ndarray) -> float:
    middles = (one[:2] + one[2:]) / 2 - (other[:2] + other[2:]) / 2
    diagonal = np.maximum(one[2:], other[2:]) - np.minimum(one[:2], other[:2])
    return iou_of(one, other)[0] - (middles**2).sum() / (diagonal**2).sum()


def each(of_pair: Callable[[np.ndarray, np.ndarray], float]) -> Plain:
    return lambda ones, others: np.array([1 - of_pair(a, b) for a, b in zip(ones, others, strict=True)])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def focal_of(logits: np.ndarray, targets: np.ndarray, alpha: float = 0.25, gamma: float = 2.0) -> np.ndarray:
    p = np.where(targets == 1, sigmoid(logits), 1 - sigmoid(logits))
    return -np.where(targets == 1, alpha, 1 - alpha) * (1 - p) ** gamma * np.log(p)


def quality_of(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    p = sigmoid(logits)
    return -((targets - p) ** 2) * ((1 - targets) * np.log(1 - p) + targets * np.log(p))


BOXES = some_boxes(0, 24), some_boxes(1, 24)
LOGITS = np.random.default_rng(2).normal(size=(6, 5)) * 2
HARD, SOFT = (np.random.default_rng(3).random((6, 5)) < 0.4) * 1.0, np.random.default_rng(4).random((6, 5))

LOSSES: dict[str, tuple[Callable[..., Any], Plain, tuple[np.ndarray, np.ndarray]]] = {
    "iou": (nn.box_iou_loss, each(lambda a, b: iou_of(a, b)[0]), BOXES),
    "giou": (nn.generalized_box_iou_loss, each(giou_of), BOXES),
    "diou": (nn.distance_box_iou_loss, each(diou_of), BOXES),
    "focal": (nn.sigmoid_focal_loss, focal_of, (LOGITS, HARD)),
    "focal, gamma 1.5": (
        lambda x, t: nn.sigmoid_focal_loss(x, t, gamma=1.5, alpha=0.7),
        lambda x, t: focal_of(x, t, 0.7, 1.5),
        (LOGITS, HARD),
    ),
    "focal, no alpha": (
        lambda x, t: nn.sigmoid_focal_loss(x, t, alpha=-1),
        lambda x, t: 2 * focal_of(x, t, 0.5),
        (LOGITS, HARD),
    ),
    "quality focal": (nn.quality_focal_loss, quality_of, (LOGITS, SOFT)),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_a_loss_and_its_derivatives_are_the_formulas(name: str, device: str) -> None:
    """First derivatives against central differences of the formula, second ones against those of the first."""
    ours, plain, (x, y) = LOSSES[name]
    directions = np.random.default_rng(5).normal(size=(2, *x.shape))

    def along(values: np.ndarray) -> tuple[Any, Any, Any]:
        tensor = engine.asarray(values)
        loss = ours(tensor, engine.asarray(y))
        (gradient,) = engine.gradients(engine.sum(loss), [tensor])
        slope = engine.sum(gradient * engine.asarray(directions[0]))
        (second,) = engine.gradients(slope, [tensor])
        return loss.numpy(), slope.item(), (second.numpy() * directions[1]).sum()

    with engine.device(device):
        step = 1e-5
        value, slope, curve = along(x)
        np.testing.assert_allclose(value, plain(x, y), rtol=2e-7, atol=1e-9)  # EPSILON in the boxes' denominators
        ends = [plain(x + sign * step * directions[0], y).sum() for sign in (1, -1)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6)
        slopes = [along(x + sign * step * directions[1])[1] for sign in (1, -1)]
        np.testing.assert_allclose(curve, (slopes[0] - slopes[1]) / (2 * step), rtol=1e-5, atol=1e-6)


def test_boxes_that_do_not_meet_are_pulled_together_by_giou_alone() -> None:
    one, other = (engine.asarray(np.array([box])) for box in ([0.0, 0, 2, 2], [5.0, 0, 7, 2]))
    for loss, is_pulled in ((nn.box_iou_loss, False), (nn.generalized_box_iou_loss, True)):
        (gradient,) = engine.gradients(engine.sum(loss(one, other)), [one])
        assert (gradient.numpy()[0, 2] < 0) == is_pulled


def test_pairwise_overlaps_and_empty_boxes() -> None:
    ones, others = some_boxes(6, 2, 5), some_boxes(7, 2, 3)
    ones[0, 0] = others[0, 0] = [3, 3, 3, 3]
    found = nn.box_iou(engine.asarray(ones), engine.asarray(others)).numpy()
    for image, row, column in np.ndindex(found.shape):
        both_empty = image == row == column == 0
        expected = 0.0 if both_empty else iou_of(ones[image, row], others[image, column])[0]
        np.testing.assert_allclose(found[image, row, column], expected, rtol=1e-12)


def test_rows_of_weight_zero_count_for_nothing() -> None:
    boxes, targets = (engine.asarray(each) for each in BOXES)
    weight = (np.arange(24) < 10).astype(np.float64)
    found = nn.generalized_box_iou_loss(boxes, targets, reduction="mean", sample_weight=engine.asarray(weight))
    np.testing.assert_allclose(found.numpy(), LOSSES["giou"][1](*BOXES)[:10].mean(), rtol=1e-6)


def greedy(boxes: np.ndarray, scores: np.ndarray, threshold: float, classes: np.ndarray) -> np.ndarray:
    """Non-maximum suppression as it is told in words."""
    kept: list[int] = []
    for box in sorted(range(len(boxes)), key=lambda box: -scores[box]):
        if all(classes[box] != classes[one] or iou_of(boxes[one], boxes[box])[0] <= threshold for one in kept):
            kept.append(box)
    return np.isin(np.arange(len(boxes)), kept)


@pytest.mark.parametrize("threshold", [0.3, 0.6])
def test_suppression_is_greedy_by_class_and_for_each_picture(threshold: float) -> None:
    boxes, random = some_boxes(8, 3, 90).astype(np.float32), np.random.default_rng(9)
    scores = np.round(random.random((3, 90)), 1).astype(np.float32)  # many equal ones: the first goes first
    classes = random.integers(0, 2, (3, 90))
    with engine.device(CpuDevice(threads=2)):
        traced = engine.trace(lambda b, s, c: (nn.nms(b, s, threshold, classes=c), nn.nms(b, s, threshold)))
        by_class, together = (kept.numpy() for kept in traced(boxes, scores, classes))
    for image in range(3):
        wide = boxes[image].astype(np.float64)
        np.testing.assert_array_equal(by_class[image], greedy(wide, scores[image], threshold, classes[image]))
        np.testing.assert_array_equal(together[image], greedy(wide, scores[image], threshold, np.zeros(90)))
        assert 0 < together[image].sum() < by_class[image].sum() < 90


def test_what_does_not_fit_is_refused() -> None:
    boxes = engine.asarray(some_boxes(0, 4))
    with pytest.raises(TrainerError, match="four numbers"):
        nn.box_area(boxes[:, :3])
    with pytest.raises(TrainerError, match="in pairs"):
        nn.box_iou_loss(boxes, boxes[:3])
    with pytest.raises(TrainerError, match="boxes and scores don't match"):
        nn.nms(boxes, engine.zeros((3,)), 0.5)

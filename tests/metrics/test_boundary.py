"""The boundary F-score against scikit-image's boundaries and SciPy's distances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt
from skimage.segmentation import find_boundaries

from tests.metrics.measuring import measured, split_measured
from trainer import TrainerError
from trainer.metrics.boundary import BoundaryF

CLASSES = 4


def scenes(count: int = 5, height: int = 24, width: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Labels of rectangles, and scores that prefer them moved by a pixel or two; the last class is never there."""
    random = np.random.default_rng(0)
    labels = np.zeros((count, height, width), np.uint8)
    for image in labels:
        for label in (1, 2, 1):
            y, x = random.integers(0, height - 8), random.integers(0, width - 8)
            image[y : y + random.integers(4, 12), x : x + random.integers(4, 12)] = label
    moved = np.stack([np.roll(image, random.integers(-3, 4, 2), (0, 1)) for image in labels])
    return (np.moveaxis(np.eye(CLASSES)[moved], -1, 1) + random.random((count, CLASSES, height, width)) * 0.5).astype(
        np.float32
    ), labels


def by_definition(scores: np.ndarray, labels: np.ndarray, tolerance: float, ignored: int = 255) -> float:
    means = []
    for label in range(CLASSES):
        of_images = []
        for chosen, right in zip(scores.argmax(1), labels, strict=True):
            counts = right != ignored
            edges = [
                find_boundaries((image == label) & counts, mode="inner", connectivity=1) for image in (chosen, right)
            ]
            if not (edges[0].any() or edges[1].any()):
                continue
            shares = []
            for one, other in (edges, edges[::-1]):
                near = distance_transform_edt(~other) <= tolerance if other.any() else np.zeros_like(other)
                shares.append((one & near).sum() / max(one.sum(), 1))
            of_images.append(2 * shares[0] * shares[1] / sum(shares) if sum(shares) else 0.0)
        means += [np.mean(of_images)] if of_images else []
    return float(np.mean(means))


@pytest.mark.parametrize("tolerance", [0, 1, 1.5, 3])
def test_the_score_is_the_definitions_in_any_batches(tolerance: float) -> None:
    scores, labels = scenes()
    want = by_definition(scores, labels, tolerance)
    assert 0 < want <= 1
    for sizes, order in (((5,), (0,)), ((2, 2, 1), (2, 0, 1))):
        found = split_measured(BoundaryF(tolerance), sizes, order=order, scores=scores, labels=labels)
        assert found[""] == pytest.approx(want, rel=1e-6)


def test_ignored_pixels_are_of_no_class() -> None:
    scores, labels = scenes()
    labels[:, 5:9, 3:20] = 255
    assert measured(BoundaryF(1), scores=scores, labels=labels)[""] == pytest.approx(by_definition(scores, labels, 1))


def test_the_tolerance_goes_by_the_diagonal() -> None:
    scores, labels = scenes()
    assert math.ceil(0.0075 * math.hypot(24, 30)) == 1
    assert measured(BoundaryF(), scores=scores, labels=labels) == measured(BoundaryF(1), scores=scores, labels=labels)


def test_one_class_everywhere_has_no_boundary() -> None:
    scores = np.zeros((1, 2, 8, 8), np.float32)
    assert math.isnan(measured(BoundaryF(), scores=scores, labels=np.zeros((1, 8, 8), np.uint8))[""])
    with pytest.raises(TrainerError, match="needs images"):
        measured(BoundaryF(), scores=np.zeros((1, 2), np.float32), labels=np.zeros(1, np.uint8))

"""Panoptic quality against its definition over sets of pixels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.metrics.measuring import measured, split_measured, state_of
from trainer import TrainerError
from trainer.metrics.panoptic import PanopticQuality

CLASSES = 4


def scenes(count: int = 6, size: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Rectangles over a background that is no segment in some places; what is found is moved and sometimes renamed."""
    random = np.random.default_rng(0)
    right = np.zeros((count, size, size), np.int32)
    found = right.copy()
    for image, other in zip(right, found, strict=True):
        image[:, :5] = other[:, :4] = -1
        for number in range(1, 6):
            label = int(random.integers(0, CLASSES - 1))
            y, x, height, width = random.integers(0, size - 6, 2).tolist() + random.integers(3, 9, 2).tolist()
            image[y : y + height, x : x + width] = 1000 * label + number
            label = label if random.random() < 0.8 else (label + 1) % (CLASSES - 1)
            dy, dx = random.integers(0, 2, 2)
            other[y + dy : y + height, x : x + width + dx] = 1000 * label + number + 7
    return found, right


def by_definition(found: np.ndarray, right: np.ndarray) -> dict[str, float]:
    per_class: list[tuple[float, float, float]] = []
    tables = np.zeros((4, CLASSES))
    for one, other in zip(found, right, strict=True):
        ours = {s: set(np.flatnonzero(one == s).tolist()) for s in np.unique(one).tolist() if s >= 0}
        theirs = {s: set(np.flatnonzero(other == s).tolist()) for s in np.unique(other).tolist() if s >= 0}
        void = set(np.flatnonzero(other < 0).tolist())
        pairs = [(a, b) for a in ours for b in theirs if a // 1000 == b // 1000
                 and len(ours[a] & theirs[b]) / len((ours[a] | theirs[b]) - (ours[a] & void)) > 0.5]  # fmt: skip
        for a, b in pairs:
            tables[0, a // 1000] += len(ours[a] & theirs[b]) / len((ours[a] | theirs[b]) - (ours[a] & void))
            tables[1, a // 1000] += 1
        for a, pixels in ours.items():
            if a not in [pair[0] for pair in pairs] and len(pixels & void) / len(pixels) <= 0.5:
                tables[2, a // 1000] += 1
        for b in theirs:
            tables[3, b // 1000] += b not in [pair[1] for pair in pairs]
    for overlap, matched, wrong, missed in tables.T:
        if matched + wrong + missed:
            per_class.append((overlap / (matched + wrong / 2 + missed / 2), overlap / matched if matched else 0.0,
                              matched / (matched + wrong / 2 + missed / 2)))  # fmt: skip
    means = np.mean(per_class, axis=0)
    return dict(zip(("", "segmentation", "recognition"), means.tolist(), strict=True))


@pytest.mark.parametrize(("sizes", "order"), [((6,), (0,)), ((4, 2), (1, 0))])
def test_the_quality_is_the_definitions_in_any_batches(sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
    found, right = scenes()
    want = by_definition(found, right)
    assert 0 < want[""] < 1
    values = split_measured(PanopticQuality(CLASSES), sizes, order=order, segments=found, true_segments=right)
    assert values == {name: pytest.approx(value, rel=1e-12) for name, value in want.items()}


def test_what_is_right_has_quality_one_and_only_classes_that_occur_count() -> None:
    _, right = scenes()
    metric = PanopticQuality(CLASSES)
    assert set(measured(metric, segments=right, true_segments=right).values()) == {1.0}
    report = metric.reports(state_of(metric, {"segments": right, "true_segments": right}))[""]
    assert np.isnan(report.data["columns"]["quality"]).tolist() == [False, False, False, True]


def test_a_segment_mostly_where_nothing_is_labeled_is_no_mistake() -> None:
    right = np.full((1, 4, 4), -1, np.int32)
    right[0, 0] = 1001
    found = np.full((1, 4, 4), 2003, np.int32)
    found[0, 0] = 1001
    assert set(measured(PanopticQuality(CLASSES), segments=found, true_segments=right).values()) == {1.0}


def test_nothing_at_all_has_no_quality_and_unknown_classes_are_refused() -> None:
    void = np.full((1, 2, 2), -1, np.int32)
    assert math.isnan(measured(PanopticQuality(CLASSES), segments=void, true_segments=void)[""])
    with pytest.raises(TrainerError, match="a segment"):
        measured(PanopticQuality(CLASSES), segments=void + 5001, true_segments=void)

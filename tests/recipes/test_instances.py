"""Objects from maps of pixels: targets against loops over objects, gathering against the objects themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pycocotools import mask as coding

from trainer import engine
from trainer.datasets import Item
from trainer.learner.inference import grouping
from trainer.learner.inference.grouping import PER_CLASS, Grouping, local_maximum, run_lengths
from trainer.learner.inference.instances import InstanceFigures, InstanceMaps
from trainer.metrics.detection import CocoFigures
from trainer.recipes.parts.instances import SPREAD, annotations_of, targets

SIZE = (60, 80)


def discs(*places: tuple[float, float, float]) -> np.ndarray:
    """int32 [H, W]: segments of discs (row, column, radius)."""
    rows, columns = np.indices(SIZE)
    segments = np.zeros(SIZE, np.int32)
    for number, (row, column, radius) in enumerate(places):
        segments[(rows - row) ** 2 + (columns - column) ** 2 <= radius**2] = PER_CLASS + number
    return segments


CROWDED = discs((10, 10, 8), (10, 24, 6), (22, 16, 6), (40, 50, 18), (30, 70, 3), (36, 71, 3), (57, 2, 4))
"""Discs that touch, one that is far larger, two tiny ones side by side, one cut off by the edge."""


def maps_of(segments: np.ndarray) -> np.ndarray:
    """[4, H, W] that a network without mistakes would give."""
    with engine.device("reference"):
        right = targets(engine.asarray(segments[None]))
        parts = [right.foreground.astype(engine.float32), right.heatmap, right.offset_y, right.offset_x]
        return np.stack([part.numpy()[0] for part in parts])


def test_targets_are_those_of_each_object_by_itself() -> None:
    maps = maps_of(CROWDED)
    expected = np.zeros_like(maps)
    for value in np.unique(CROWDED[CROWDED > 0]):
        rows, columns = np.nonzero(value == CROWDED)
        down, right = rows.mean() - rows, columns.mean() - columns
        near = np.exp(-(down**2 + right**2) / (2 * SPREAD**2 * len(rows) / np.pi))
        expected[:, rows, columns] = np.stack([np.ones(len(rows)), near, down, right])
    np.testing.assert_allclose(maps, expected, atol=1e-4)


def test_objects_are_gathered_again_from_their_maps() -> None:
    maps = maps_of(CROWDED)
    found, scores = Grouping()(maps[0], maps[1], maps[2:])
    assert len(scores) == len(np.unique(CROWDED)) - 1 and scores.min() > 0.9
    pairs = np.unique(np.stack([found.ravel(), CROWDED.ravel()]), axis=1)
    assert pairs.shape[1] == len(scores) + 1  # one to one, the background among them


def test_what_is_too_small_or_points_nowhere_is_no_object() -> None:
    maps = maps_of(CROWDED)
    found, scores = Grouping(min_pixels=200)(maps[0], maps[1], maps[2:])
    assert len(scores) == 1 and (found > 0).sum() == (CROWDED == PER_CLASS + 3).sum()
    maps[2:, CROWDED == PER_CLASS] += 50
    found, scores = Grouping()(maps[0], maps[1], maps[2:])
    assert not found[CROWDED == PER_CLASS].any() and len(scores) == 6
    for empty in (np.zeros(SIZE), np.full(SIZE, 0.4)):
        found, scores = Grouping()(empty, maps[1], maps[2:])
        assert not found.any() and len(scores) == 0


def test_two_peaks_in_an_object_that_points_at_one_middle_stay_one_object() -> None:
    maps = maps_of(CROWDED)
    maps[1, 32, 44] = maps[1, 48, 56] = 1.0
    found, _ = Grouping()(maps[0], maps[1], maps[2:])
    assert len(np.unique(found[CROWDED == PER_CLASS + 3])) == 1


def test_two_halves_that_aim_at_almost_one_place_are_one_object() -> None:
    maps, disc = maps_of(CROWDED), CROWDED == PER_CLASS + 3
    maps[1, 40, 45] = maps[1, 40, 55] = 1.5
    maps[3, disc] *= 0.7  # each half positions at the center_threshold on its side rather than at the center
    found, _ = Grouping(merge_distance=0)(maps[0], maps[1], maps[2:])
    assert len(np.unique(found[disc])) > 1
    found, _ = Grouping()(maps[0], maps[1], maps[2:])
    assert len(np.unique(found[disc])) == 1


def test_of_more_middles_than_objects_can_be_numbered_the_nearest_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that knows nothing yet has thousands."""
    monkeypatch.setattr(grouping, "MAX_CENTERS", 200)
    draws = np.random.default_rng(0)
    probability, heatmap = draws.random((2, 64, 64))
    positions = np.indices((64, 64)) + (offsets := 8 * draws.standard_normal((2, 64, 64)))
    found, scores = Grouping(
        foreground=0, center_threshold=0, nms_radius=1, min_pixels=1, max_center_distance=1e9, merge_distance=0
    )(probability, heatmap, offsets)
    centers = np.argwhere(heatmap >= local_maximum(heatmap, 1))
    assert len(centers) > 300 and 150 < len(scores) == len(np.unique(found)) <= 200 and found.min() == 1
    centers = centers[np.sort(np.argsort(-heatmap[tuple(centers.T)])[:200])]
    nearest = np.argmin([np.square(positions - center[:, None, None]).sum(0) for center in centers], 0)
    assert all(len(np.unique(nearest[found == number])) == 1 for number in np.unique(found))


def test_the_score_is_the_mean_probability_of_the_objects_pixels_by_the_nearness_of_its_middle() -> None:
    maps = maps_of(CROWDED)
    probability = np.where(CROWDED > 0, np.random.default_rng(0).uniform(0.5, 1, SIZE), 0)
    found, scores = Grouping()(probability, maps[1], maps[2:])
    for number, score in enumerate(scores, start=1):
        inside = found == number
        assert score == pytest.approx(probability[inside].mean() * maps[1][inside].max())


def test_the_highest_within_a_window() -> None:
    values = np.random.default_rng(0).random((9, 7))
    for radius in (1, 2):
        expected = [
            [values[max(0, r - radius) : r + radius + 1, max(0, c - radius) : c + radius + 1].max() for c in range(7)]
            for r in range(9)
        ]
        np.testing.assert_array_equal(local_maximum(values, radius), expected)


def test_masks_of_samples_are_coco_s_run_lengths() -> None:
    told = annotations_of(CROWDED, np.arange(7) / 7)
    assert [mask["size"] for mask in told["masks"]] == [list(SIZE)] * 7 and len(told["scores"]) == 7
    for number, mask in enumerate(told["masks"]):
        decoded = coding.decode(coding.frPyObjects(mask, *SIZE))
        np.testing.assert_array_equal(decoded, PER_CLASS + number == CROWDED)
    assert run_lengths(np.ones((2, 3), bool))["counts"] == [0, 6]


class Overlapping:
    """One picture of three masks, two of which overlap and one of which is a crowd."""

    class_names = ("nucleus",)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Item:
        masks = np.zeros((3, 6, 8), bool)
        masks[0, 1:3, 1:3], masks[1, :5, :5], masks[2, :, 6:] = True, True, True
        return {
            "image": np.zeros((6, 8, 1), np.uint8),
            "masks": masks,
            "labels": np.zeros(3, np.int64),
            "crowd": np.array([False, False, True]),
            "image_id": np.int64(7),
        }

    def source(self, index: int) -> str:
        return "it"


def test_masks_become_one_with_the_smaller_in_front_and_crowds_ignored() -> None:
    item = InstanceMaps(Overlapping())[0]
    expected = np.zeros((6, 8), np.int32)
    expected[:5, :5], expected[1:3, 1:3], expected[:, 6:] = PER_CLASS + 1, PER_CLASS, 255
    np.testing.assert_array_equal(item["mask"], expected)
    assert item["image_id"] == 7


def test_the_figures_are_coco_s_of_the_objects_that_are_gathered() -> None:
    """Of maps with mistakes: the state is the one that masks of the same objects would make."""
    generator = np.random.default_rng(0)
    segments = np.stack([CROWDED, discs((20, 20, 9), (20, 38, 8), (45, 60, 12))])
    maps = np.stack([maps_of(np.roll(one, 1, axis=1)) for one in segments])
    maps[:, 0] *= generator.uniform(0.45, 1, maps[:, 0].shape)
    grouping = Grouping(max_center_distance=4)
    ours, theirs = InstanceFigures(grouping, "nucleus"), CocoFigures("segm", ("nucleus",))
    part: dict[str, Any] = {"image_id": np.array([3, 5, 0]), "weight": np.array([1.0, 1, 0])}
    rows = {"maps": maps[[0, 1, 1]], "segments": segments[[0, 1, 1]]}
    state: Any = {}
    for row in range(2):
        found, scores = grouping(maps[row, 0], maps[row, 1], maps[row, 2:])
        numbers = np.unique(segments[row])[1:]
        state = theirs.fold(state, {
            "image_id": part["image_id"][[row]], "weight": np.ones(1), "scores": scores[None],
            "classes": np.zeros((1, len(scores)), int), "true_classes": np.zeros((1, len(numbers)), int),
            "masks": np.array([[found == number + 1 for number in range(len(scores))]]),
            "true_masks": np.array([[segments[row] == number for number in numbers]]),
        })  # fmt: skip
    figures = ours.values(ours.fold({}, {**part, **rows}))
    assert figures == pytest.approx(theirs.values(state), nan_ok=True)
    assert 0.1 < figures["AP"] < 0.95

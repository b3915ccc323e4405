"""FCOS' parts: the coding of boxes, which place answers for which box, and what is found, against plain loops."""

from __future__ import annotations

import numpy as np

from trainer import engine
from trainer.engine import nn
from trainer.recipes.parts.boxes import boxes_from_distances, distances_to_sides, locations
from trainer.recipes.parts.fcos import FcosHead, assign, detect
from trainer.recipes.parts.feature_pyramid import FeaturePyramid

STRIDES, SIZES, RANGES, RADIUS = (8, 16), [(6, 8), (3, 4)], (20.0,), 1.5


def some_boxes(seed: int, *shape: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    corner = random.uniform(0, 40, (*shape, 2))
    return np.concatenate([corner, corner + random.uniform(6, 40, (*shape, 2))], axis=-1).astype(np.float32)


def test_places_lie_in_the_middle_of_what_they_see() -> None:
    places = locations(SIZES, STRIDES)
    assert places.points.shape == (6 * 8 + 3 * 4, 2)
    np.testing.assert_array_equal(places.points[[0, 1, 8, 48, 52]], [[4, 4], [12, 4], [4, 12], [8, 8], [8, 24]])
    assert places.strides.tolist() == [8.0] * 48 + [16.0] * 12 and places.levels.tolist() == [0] * 48 + [1] * 12


def test_boxes_come_back_from_their_distances() -> None:
    boxes, points = some_boxes(0, 7), np.random.default_rng(1).uniform(0, 60, (7, 2)).astype(np.float32)
    sides = distances_to_sides(engine.asarray(points), engine.asarray(boxes))
    np.testing.assert_allclose(sides.numpy()[:, 0], points[:, 0] - boxes[:, 0])
    np.testing.assert_allclose(boxes_from_distances(engine.asarray(points), sides).numpy(), boxes, atol=1e-5)


def answers(point: np.ndarray, stride: float, level: int, boxes: np.ndarray, labels: np.ndarray) -> int | None:
    """The paper's rule in words: of the boxes that a place may answer for the smallest."""
    fitting = []
    for number, (box, label) in enumerate(zip(boxes, labels, strict=True)):
        sides = [point[0] - box[0], point[1] - box[1], box[2] - point[0], box[3] - point[1]]
        middle = (box[:2] + box[2:]) / 2
        is_of_level = max(sides) < RANGES[0] if level == 0 else max(sides) >= RANGES[0]
        if label >= 0 and min(sides) > 0 and is_of_level and np.abs(point - middle).max() < RADIUS * stride:
            fitting.append(((box[2] - box[0]) * (box[3] - box[1]), number))
    return min(fitting)[1] if fitting else None


def test_each_place_answers_for_the_smallest_box_of_its_level_around_it() -> None:
    boxes, labels = some_boxes(2, 3, 6), np.random.default_rng(3).integers(0, 3, (3, 6))
    labels[0, 4:] = -1
    labels[2] = -1
    places = locations(SIZES, STRIDES)
    targets = assign(places, engine.asarray(boxes), engine.asarray(labels), RANGES, radius=RADIUS)
    found = targets.classes.numpy()
    for image in range(3):
        for place, point in enumerate(places.points):
            box = answers(point, places.strides[place], places.levels[place], boxes[image], labels[image])
            assert found[image, place] == (-1 if box is None else labels[image, box])
            if box is not None:
                np.testing.assert_array_equal(targets.boxes.numpy()[image, place], boxes[image, box])
    assert (found[:2] >= 0).sum() > 20 and (found[2] == -1).all()
    np.testing.assert_array_equal(targets.is_positive.numpy(), found >= 0)


def test_what_is_found_is_the_best_without_what_overlaps_it() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [30, 0, 40, 10], [0, 0, 10, 10]], np.float32)[None]
    logits = np.full((1, 4, 2), -8, np.float32)
    logits[0, 0, 0], logits[0, 1, 0], logits[0, 2, 0], logits[0, 3, 1] = 1, 2, 0, -1
    found = detect(
        engine.asarray(logits), engine.asarray(boxes), candidates=6, score_threshold=0.05, iou_threshold=0.5, most=5
    )
    assert found.classes.numpy().tolist() == [[0, 0, 1, -1, -1]]
    np.testing.assert_array_equal(found.boxes.numpy()[0, :3], boxes[0, [1, 2, 3]])
    np.testing.assert_allclose(found.scores.numpy()[0, :3], 1 / (1 + np.exp([-2.0, 0.0, 1.0])), rtol=1e-6)


def test_pyramid_and_head_give_a_row_for_each_place_and_start_at_the_prior() -> None:
    pyramid, head = FeaturePyramid((16, 32), 16), FcosHead(16, 3, depth=1, levels=2)
    features = [np.random.default_rng(4).normal(size=(2, 16 << level, *SIZES[level])) for level in range(2)]
    levels = pyramid([engine.asarray(each.astype(np.float32)) for each in features])
    assert [level.shape for level in levels] == [(2, 16, 6, 8), (2, 16, 3, 4)]
    logits, distances = head(levels)
    assert logits.shape == (2, 60, 3) and distances.shape == (2, 60, 4)
    assert (distances.numpy() > 0).all() and abs(nn.functional.sigmoid(logits).numpy().mean() - 0.01) < 0.01
    first_level_alone = head(levels[:1])[0]
    np.testing.assert_allclose(first_level_alone.numpy(), logits.numpy()[:, :48], rtol=1e-5, atol=1e-5)

"""Random shifts against NumPy's padding, and what they depend on."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError
from trainer.datasets import Draws, RandomShift


def test_every_place_is_taken_and_the_pixels_are_those_of_the_image() -> None:
    image = np.random.default_rng(0).integers(1, 256, (2, 5, 6), dtype=np.uint8)
    shifted = RandomShift(1)({"image": np.tile(image, (200, 1, 1, 1))}, Draws(0, 0, np.arange(200)))["image"]
    assert shifted.shape == (200, 2, 5, 6) and shifted.dtype == np.uint8
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    places = [padded[:, row : row + 5, column : column + 6] for row in range(3) for column in range(3)]
    counts = [sum(np.array_equal(one, place) for one in shifted) for place in places]
    assert sum(counts) == 200
    assert min(counts) > 8  # 22 expected


def test_a_shift_belongs_to_the_item_and_not_to_its_batch() -> None:
    images = np.tile(np.arange(784, dtype=np.float32).reshape(1, 1, 28, 28), (2, 1, 1, 1))
    batch = {"image": images, "label": np.zeros(2)}
    both = RandomShift(3)(batch, Draws(0, 1, np.array([4, 8])))
    alone = RandomShift(3)({"image": images[:1]}, Draws(0, 1, np.array([8])))
    np.testing.assert_array_equal(both["image"][1], alone["image"][0])
    assert not np.array_equal(both["image"][0], both["image"][1])
    assert both["label"] is batch["label"]


def test_no_pixels_leave_the_images_alone() -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 1, 28, 28), dtype=np.uint8)
    np.testing.assert_array_equal(RandomShift(0)({"image": images}, Draws(0, 0, np.arange(4)))["image"], images)


def test_images_without_channels_are_refused() -> None:
    with pytest.raises(TrainerError, match=r"\[4, 28, 28\]"):
        RandomShift(1)({"image": np.zeros((4, 28, 28))}, Draws(0, 0, np.arange(4)))

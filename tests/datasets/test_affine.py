"""The affine warp against Pillow's, and the ranges of its random amounts."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from trainer.datasets import Draws, RandomAffine
from trainer.datasets.affine import warp


def smooth_images(count: int, channels: int, height: int, width: int) -> np.ndarray:
    noise = np.random.default_rng(0).random((count, channels, height, width))
    for axis in (2, 3):
        noise = (np.roll(noise, 1, axis) + noise + np.roll(noise, -1, axis)) / 3
    return (noise * 255).astype(np.uint8)


def test_the_identity_changes_nothing() -> None:
    images = smooth_images(3, 2, 9, 12)
    rows = np.tile(np.array([1, 0, 0], np.float32), (3, 1))
    columns = np.tile(np.array([0, 1, 0], np.float32), (3, 1))
    np.testing.assert_array_equal(warp(images, rows, columns), images)


def test_a_whole_shift_moves_pixels_and_brings_in_zeros() -> None:
    images = smooth_images(1, 1, 6, 8)
    shifted = warp(images, np.array([[1, 0, 2]], np.float32), np.array([[0, 1, -3]], np.float32))
    np.testing.assert_array_equal(shifted[0, 0, :4, 3:], images[0, 0, 2:, :5])
    assert not shifted[0, 0, 4:].any() and not shifted[0, 0, :, :3].any()


@pytest.mark.parametrize("angle", [0.3, -1.0])
def test_a_rotation_agrees_with_pillow_inside_the_picture(angle: float) -> None:
    size = 24
    images = smooth_images(2, 1, size, size)
    cosine, sine = np.cos(angle), np.sin(angle)
    rows = np.tile(np.array([cosine, sine, 0.5], np.float32), (2, 1))
    columns = np.tile(np.array([-sine, cosine, -1.25], np.float32), (2, 1))
    ours = warp(images, rows, columns)
    # Pillow maps pixel centres (x + 0.5, y + 0.5) with x first.
    middle = size / 2
    x_offset = middle - cosine * middle + sine * middle - 1.25
    y_offset = middle - sine * middle - cosine * middle + 0.5
    coefficients = (cosine, -sine, x_offset, sine, cosine, y_offset)
    inside = np.hypot(*np.meshgrid(np.arange(size) - 11.5, np.arange(size) - 11.5)) < 9
    for ours_one, image in zip(ours, images, strict=True):
        theirs = Image.fromarray(image[0]).transform(
            (size, size), Image.Transform.AFFINE, coefficients, Image.Resampling.BILINEAR
        )
        np.testing.assert_allclose(ours_one[0][inside].astype(int), np.asarray(theirs)[inside].astype(int), atol=1)


def test_each_item_is_changed_by_its_own_draws() -> None:
    images = np.tile(smooth_images(1, 1, 28, 28), (2, 1, 1, 1))
    augment = RandomAffine()
    both = augment({"image": images, "label": np.zeros(2)}, Draws(0, 1, np.array([4, 8])))["image"]
    alone = augment({"image": images[:1]}, Draws(0, 1, np.array([8])))["image"]
    assert both.shape == images.shape and both.dtype == np.uint8
    np.testing.assert_array_equal(both[1], alone[0])
    assert not np.array_equal(both[0], both[1])


def test_no_amounts_leave_the_images_alone() -> None:
    images = smooth_images(4, 1, 28, 28)
    augment = RandomAffine(degrees=0, scale=0, shift=0)
    np.testing.assert_array_equal(augment({"image": images}, Draws(0, 0, np.arange(4)))["image"], images)

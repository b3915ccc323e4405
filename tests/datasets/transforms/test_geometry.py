"""Pixels, masks, boxes and keypoints move together, to the pixel; resampling against scikit-image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from skimage import transform as sk

from trainer import TrainerError
from trainer.datasets import Item
from trainer.datasets.transforms import (
    Affine,
    HorizontalFlip,
    ItemDraws,
    Letterbox,
    Perspective,
    QuarterTurn,
    Rotate,
    geometry,
)
from trainer.datasets.transforms.warp import about_the_middle, rotation, through

SIZE = (48, 64)


def drawn(left: int = 12, top: int = 10, right: int = 30, bottom: int = 22) -> Item:
    """A white rectangle on black, with its box, its mask and its corners as keypoints."""
    image = np.zeros((*SIZE, 3), np.uint8)
    image[top:bottom, left:right] = 255
    corners = [[left, top, 2], [right, top, 2], [right, bottom, 2], [left, bottom, 2]]
    return {
        "image": image,
        "mask": (image[..., 0] > 0).astype(np.uint8),
        "masks": image[None, ..., 0] > 0,
        "boxes": np.array([[left, top, right, bottom]], np.float32),
        "labels": np.array([1]),
        "crowd": np.array([False]),
        "area": np.array([(right - left) * (bottom - top)], np.float32),
        "keypoints": np.array([corners], np.float32),
    }


def extent(pixels: np.ndarray) -> np.ndarray:
    """The box around the pixels that are set."""
    rows, columns = np.flatnonzero(pixels.any(1)), np.flatnonzero(pixels.any(0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])


def assert_together(item: Item, tolerance: float) -> None:
    """The box is around the rectangle's pixels, in the image as in the masks, and its corners where the points are."""
    bright = item["image"][..., 0] > 127
    for pixels in (bright, item["mask"] == 1, item["masks"][0]):
        np.testing.assert_allclose(extent(pixels), item["boxes"][0], atol=tolerance)
    points = item["keypoints"][0, :, :2]
    np.testing.assert_allclose(np.concatenate([points.min(0), points.max(0)]), item["boxes"][0], atol=1e-3)
    np.testing.assert_allclose(item["area"][0], bright.sum(), rtol=0.05)


def test_flips_are_exact() -> None:
    across = geometry.flip(drawn(), horizontal=True)
    np.testing.assert_array_equal(across["boxes"], [[34, 10, 52, 22]])
    assert_together(across, 0)
    assert_together(geometry.flip(drawn(), horizontal=False), 0)
    np.testing.assert_array_equal(geometry.flip(across, horizontal=True)["image"], drawn()["image"])


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_quarter_turns_are_exact_and_counterclockwise(turns: int) -> None:
    turned = geometry.quarter_turn(drawn(), turns)
    np.testing.assert_array_equal(turned["image"], np.rot90(drawn()["image"], turns))
    assert_together(turned, 0)


def test_all_quarter_turns_come_up_equally_often() -> None:
    boxes = [QuarterTurn()(drawn(), ItemDraws(0, 0, index))["boxes"][0].tolist() for index in range(400)]
    counts = [boxes.count(geometry.quarter_turn(drawn(), turns)["boxes"][0].tolist()) for turns in range(4)]
    assert sum(counts) == 400 and min(counts) > 75  # 100 expected


def test_keypoints_that_come_in_pairs_change_names() -> None:
    flipped = HorizontalFlip(keypoint_pairs=((0, 1), (3, 2)))(drawn(), ItemDraws(0, 0, 0))
    np.testing.assert_array_equal(flipped["keypoints"][0, :, :2], [[34, 10], [52, 10], [52, 22], [34, 22]])


@pytest.mark.parametrize("size", [(96, 128), (24, 32), (48, 128), (31, 47)])
def test_resizing_moves_everything(size: tuple[int, int]) -> None:
    assert_together(geometry.resize(drawn(), size), 1.0)


def test_reducing_does_not_alias() -> None:
    image = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)  # a chessboard of single pixels
    small = geometry.resize({"image": image[..., None]}, (16, 16))["image"]
    assert np.abs(small.astype(int)[1:-1, 1:-1] - 127.5).max() <= 1


def test_enlarging_agrees_with_scikit_image() -> None:
    image = np.random.default_rng(0).integers(0, 256, (12, 17, 3), dtype=np.uint8)
    ours = geometry.resize({"image": image}, (31, 40))["image"]
    expected = sk.resize(image.astype(np.float64), (31, 40), order=1, mode="edge", anti_aliasing=False)
    assert np.abs(ours - expected).max() <= 1.0


def test_an_image_of_floats_is_resampled_like_one_of_bytes() -> None:
    image = np.random.default_rng(0).integers(0, 256, (12, 17, 3), dtype=np.uint8)
    floats = geometry.resize({"image": image.astype(np.float32) / 255}, (31, 40))["image"]
    assert floats.dtype == np.float32
    assert np.abs(255 * floats - geometry.resize({"image": image}, (31, 40))["image"]).max() <= 1.0


def test_a_letterbox_keeps_proportions_and_stands_in_the_middle() -> None:
    item = Letterbox((64, 64))(drawn(), ItemDraws(0, 0, 0))
    assert item["image"].shape == (64, 64, 3)
    np.testing.assert_array_equal(item["boxes"], [[12, 18, 30, 30]])
    assert (item["image"][:8] == 114).all() and (item["mask"][:8] == 255).all() and not item["masks"][:, :8].any()
    assert_together({**item, "image": item["image"] * (item["image"] == 255)}, 0)


@pytest.mark.parametrize("degrees", [90.0, 17.0, -40.0, 180.0])
def test_a_rotation_moves_everything(degrees: float) -> None:
    matrix = about_the_middle(rotation(degrees), SIZE)
    assert_together(geometry.warp(drawn(22, 16, 42, 32), matrix, SIZE, fill=0, min_visible=0.1), 1.5)


def test_boxes_of_turned_objects_shrink_to_their_masks() -> None:
    rows, columns = np.indices((60, 60)) + 0.5
    disc = (rows - 30) ** 2 + (columns - 30) ** 2 <= 15**2
    item = {"image": disc[..., None].astype(np.uint8), "boxes": np.array([[15, 15, 45, 45]], np.float32)}
    matrix = about_the_middle(rotation(45.0), (60, 60))
    loose = geometry.warp(item, matrix, (60, 60), fill=0, min_visible=0.1)
    np.testing.assert_allclose(loose["boxes"], [np.array([-1, -1, 1, 1]) * 15 * 2**0.5 + 30], rtol=1e-6)
    tight = geometry.warp({**item, "masks": disc[None]}, matrix, (60, 60), fill=0, min_visible=0.1)
    np.testing.assert_allclose(tight["boxes"], item["boxes"], atol=1.0)


def test_a_positive_angle_turns_as_scikit_image_does() -> None:
    image = np.zeros(SIZE, np.uint8)
    image[5:9, 30:50] = 255
    matrix = about_the_middle(rotation(30.0), SIZE)
    ours = geometry.warp({"image": image[..., None]}, matrix, SIZE, fill=0, min_visible=0.1)["image"][..., 0]
    expected = sk.rotate(image, 30.0, order=1, preserve_range=True)
    assert np.abs(ours - expected)[2:-2, 2:-2].max() <= 2


@pytest.mark.parametrize(
    "transform", [Affine(scale=(0.7, 1.3), shift=0.1, degrees=20, shear=10), Perspective(0.4), Rotate(30)]
)
def test_warps_agree_with_scikit_image_and_their_boxes_with_their_pixels(transform: Any) -> None:
    half = geometry.translation(0.5, 0.5)  # scikit-image counts from the middle of the first pixel
    smooth = np.add.outer(np.arange(48) * 2.0, np.arange(64) * 1.5).astype(np.uint8)[..., None]
    for index in range(8):
        assert_together(transform(drawn(22, 16, 42, 32), ItemDraws(0, 0, index)), 1.5)
        matrix = transform.matrix(SIZE, ItemDraws(0, 0, index))
        ours = geometry.warp({"image": smooth}, matrix, SIZE, fill=0, min_visible=0.1)["image"][..., 0]
        inverse = np.linalg.inv(np.linalg.inv(half) @ matrix @ half)
        expected = sk.warp(smooth[..., 0].astype(float), inverse, order=1, cval=np.nan, preserve_range=True)
        inside = np.isfinite(expected)
        assert inside.mean() > 0.4 and np.abs(ours - expected)[inside].max() <= 1.0


def test_a_projective_map_takes_four_points_to_four_others() -> None:
    before = np.array([[0.0, 0], [10, 0], [10, 10], [0, 10]])
    after = np.array([[1.0, 2], [9, 0], [12, 11], [-1, 8]])
    homogeneous = np.c_[before, np.ones(4)] @ through(before, after).T
    np.testing.assert_allclose(homogeneous[:, :2] / homogeneous[:, 2:], after, atol=1e-9)


def test_a_crop_clips_boxes_and_drops_what_is_hardly_left() -> None:
    item = drawn()
    item = {
        **item,
        "boxes": np.array([[12, 10, 30, 22], [0, 0, 21, 12], [40, 30, 50, 40]], np.float32),
        "labels": np.array([1, 2, 3]),
        "crowd": np.array([True, False, False]),
        "area": np.array([216, 100, 50], np.float32),
        "masks": np.repeat(item["masks"], 3, 0),
        "keypoints": np.repeat(item["keypoints"], 3, 0),
    }
    part = geometry.crop(item, 8, 20, (20, 20), min_visible=0.1)
    np.testing.assert_array_equal(part["boxes"], [[0, 2, 10, 14]])
    np.testing.assert_array_equal(part["labels"], [1])
    np.testing.assert_array_equal(part["crowd"], [True])
    np.testing.assert_allclose(part["area"], [120])
    np.testing.assert_array_equal(extent(part["masks"][0]), [0, 2, 10, 14])
    np.testing.assert_array_equal(part["keypoints"], [[[0, 0, 0], [10, 2, 2], [10, 14, 2], [0, 0, 0]]])
    np.testing.assert_array_equal(geometry.crop(item, 8, 20, (20, 20), min_visible=0.0)["labels"], [1, 2])


def test_a_target_of_another_size_moves_in_its_own_pixels() -> None:
    small = drawn()["image"]
    item = {"image": small, "target": small.repeat(2, 0).repeat(2, 1)}
    for moved in (
        geometry.crop(item, 4, 10, (20, 30), min_visible=0.1),
        geometry.flip(item, horizontal=True),
        geometry.pad(item, 3, 5, (60, 70), fill=7),
        geometry.warp(item, about_the_middle(rotation(180), SIZE), SIZE, fill=0, min_visible=0),
    ):
        expected = moved["image"].repeat(2, 0).repeat(2, 1)
        np.testing.assert_allclose(moved["target"].astype(int), expected, atol=1)  # Pillow rounds 254.9999 down
    assert geometry.resize(item, (24, 32))["target"].shape == (48, 64, 3)


def test_a_mask_of_another_size_is_refused() -> None:
    with pytest.raises(TrainerError, match=r"the size of mask doesn't match[\s\S]*10x12[\s\S]*48x64"):
        geometry.resize({"image": drawn()["image"], "mask": np.zeros((10, 12), np.uint8)}, (8, 8))


def test_an_item_without_pixels_is_refused() -> None:
    with pytest.raises(TrainerError, match="needs an image"):
        geometry.resize({"tokens": np.zeros(4, np.int32)}, (8, 8))

"""Windows: where they lie, how they are distributed, what they keep; sizes and borders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.datasets import Item, ItemDraws
from trainer.datasets.transforms import (
    CenterCrop,
    Letterbox,
    Pad,
    RandomCrop,
    RandomIoUCrop,
    RandomResizedCrop,
    RandomScaledCrop,
    Resize,
    ResizeShorterSide,
    ResizeToMultiple,
)


def numbered(height: int, width: int) -> Item:
    """Pixels that say where they are."""
    rows, columns = np.indices((height, width)).astype(np.uint8)
    return {"image": np.stack([rows, columns, rows], axis=2)}


def size(item: Item) -> tuple[int, ...]:
    return item["image"].shape[:2]


def test_random_windows_lie_everywhere_equally_often() -> None:
    crops = [RandomCrop((3, 4))(numbered(5, 6), ItemDraws(0, 0, index))["image"] for index in range(900)]
    for crop in crops:
        top, left = crop[0, 0, :2]
        np.testing.assert_array_equal(crop, numbered(5, 6)["image"][top : top + 3, left : left + 4])
    corners = [(int(crop[0, 0, 0]), int(crop[0, 0, 1])) for crop in crops]
    counts = [corners.count((row, column)) for row in range(3) for column in range(3)]
    assert sum(counts) == 900 and min(counts) > 70  # 100 expected


def test_a_smaller_picture_gets_a_border_before_it_is_cut() -> None:
    for crop in (RandomCrop((8, 3), fill=7), CenterCrop((8, 3), fill=7)):
        image = crop(numbered(4, 9), ItemDraws(0, 0, 1))["image"]
        assert image.shape == (8, 3, 3)
        assert (image[:2] == 7).all() and (image[6:] == 7).all()
        np.testing.assert_array_equal(image[2:6, :, 0], np.repeat(np.arange(4)[:, None], 3, 1))


def test_the_middle_is_the_middle() -> None:
    image = CenterCrop((2, 4))(numbered(6, 8), ItemDraws(0, 0, 0))["image"]
    assert image[0, 0, :2].tolist() == [2, 2] and image[-1, -1, :2].tolist() == [3, 5]


def test_resized_windows_have_the_areas_and_proportions_asked_for() -> None:
    crop = RandomResizedCrop((8, 8), scale=(0.2, 0.5), ratio=(0.8, 1.25))
    windows = np.array([crop.window((400, 600), ItemDraws(0, 0, index))[2] for index in range(2000)])
    shares, ratios = windows.prod(1) / (400 * 600), windows[:, 1] / windows[:, 0]
    assert shares.min() > 0.198 and shares.max() < 0.502 and ratios.min() > 0.795 and ratios.max() < 1.26
    np.testing.assert_allclose(shares.mean(), 0.35, atol=0.007)
    np.testing.assert_allclose(np.median(np.log(ratios)), 0, atol=0.03)


def test_where_no_window_fits_the_largest_permitted_one_in_the_middle_is_taken() -> None:
    crop = RandomResizedCrop((8, 8), scale=(0.9, 1.0), ratio=(0.9, 1.1))
    assert crop.window((10, 100), ItemDraws(0, 0, 0)) == (0, 44, (10, 11))
    assert crop.window((100, 10), ItemDraws(0, 0, 0)) == (44, 0, (11, 10))


def test_a_resized_window_takes_its_boxes_along() -> None:
    item = {**numbered(40, 60), "boxes": np.array([[0, 0, 60, 40]], np.float32), "labels": np.array([1])}
    for index in range(20):
        moved = RandomResizedCrop((16, 24), min_visible=0.0)(item, ItemDraws(0, 0, index))
        np.testing.assert_allclose(moved["boxes"], [[0, 0, 24, 16]], atol=1e-4)


def test_a_scaled_window_shows_things_larger_or_smaller_whatever_the_pictures_size() -> None:
    for extent in (60, 120):
        item = {**numbered(extent, extent), "boxes": np.array([[0, 0, extent, extent]], np.float32)}
        item["labels"] = np.array([1])
        item["keypoints"] = np.array([[[10, 10, 2], [20, 20, 2]]], np.float32)
        steps = []
        for index in range(200):
            crop = RandomScaledCrop((24, 24), scale=(0.5, 2.0))(item, ItemDraws(0, 0, index))
            assert crop["image"].shape == (24, 24, 3)
            rows = crop["image"][2:-2, 12, 0].astype(float)
            steps.append((rows[-1] - rows[0]) / (len(rows) - 1))
        factors = 1 / np.array(steps)
        assert 0.48 < factors.min() < 0.55 and 1.85 < factors.max() < 2.2
        np.testing.assert_allclose(np.mean(np.log(factors)), 0, atol=0.1)


def test_a_scaled_window_larger_than_its_picture_gets_a_border_to_be_ignored() -> None:
    item = {**numbered(10, 30), "mask": np.zeros((10, 30), np.uint8)}
    crop = RandomScaledCrop((20, 20), scale=(1.0, 1.0), fill=9)(item, ItemDraws(0, 0, 0))
    assert (crop["image"][:5] == 9).all() and (crop["mask"][:5] == 255).all() and not crop["mask"][5:15].any()


def test_a_window_by_iou_overlaps_a_box_and_keeps_those_whose_middle_it_shows() -> None:
    boxes = np.array([[10, 10, 40, 40], [50, 60, 90, 95], [0, 0, 6, 6]], np.float32)
    item = {"image": np.zeros((100, 100, 1), np.uint8), "boxes": boxes, "labels": np.arange(3)}
    crop = RandomIoUCrop(overlaps=(0.5,))
    cut = [result for index in range(60) if size(result := crop(item, ItemDraws(0, 0, index))) != (100, 100)]
    assert len(cut) > 15
    for result in cut:
        height, width = size(result)
        assert len(result["boxes"]) > 0 and 0.5 <= width / height <= 2
        areas = (result["boxes"][:, 2:] - result["boxes"][:, :2]).prod(1)
        whole = (boxes[:, 2:] - boxes[:, :2]).prod(1)[result["labels"]]
        assert (areas / (whole + height * width - areas)).max() >= 0.5
        middles = result["boxes"].reshape(-1, 2, 2).mean(1)
        assert (areas / whole > 0.2).all() and ((middles > 0) & (middles < (width, height))).all()


def test_a_picture_without_boxes_or_of_which_all_is_to_be_seen_stays_whole() -> None:
    item = {**numbered(20, 20), "boxes": np.zeros((0, 4), np.float32)}
    assert RandomIoUCrop()(item, ItemDraws(0, 0, 0)) is item
    item["boxes"] = np.array([[2, 2, 9, 9]], np.float32)
    assert RandomIoUCrop(overlaps=(1.0,))(item, ItemDraws(0, 0, 0)) is item


def test_sizes() -> None:
    draws = ItemDraws(0, 0, 0)
    item = numbered(30, 40)
    assert size(Resize((7, 9))(item, draws)) == (7, 9)
    assert size(Letterbox((20, 20))(item, draws)) == (20, 20)
    assert size(ResizeShorterSide(60)(item, draws)) == (60, 80)
    assert size(ResizeShorterSide(60, longest=60)(item, draws)) == (45, 60)
    assert size(ResizeToMultiple(16)(item, draws)) == (32, 48) or size(ResizeToMultiple(16)(item, draws)) == (32, 32)
    assert size(ResizeToMultiple(64)(numbered(3, 70), draws)) == (64, 64)
    assert size(Pad(multiple=32)(item, draws)) == (32, 64)
    assert size(Pad((30, 41))(item, draws)) == (30, 41)


def test_a_border_is_added_on_the_right_and_below_and_is_to_be_ignored(make_item: Any) -> None:
    item = make_item(24, 32)
    padded = Pad(multiple=20, fill=9)(item, ItemDraws(0, 0, 0))
    np.testing.assert_array_equal(padded["image"][:24, :32], item["image"])
    assert (padded["image"][24:] == 9).all() and (padded["image"][:, 32:] == 9).all()
    assert (padded["mask"][24:] == 255).all() and not padded["masks"][:, :, 32:].any()
    np.testing.assert_array_equal(padded["boxes"], item["boxes"])


def test_a_picture_larger_than_its_border_is_refused() -> None:
    with pytest.raises(TrainerError, match=r"larger than[\s\S]*30x40[\s\S]*at most 32x32[\s\S]*crop before"):
        Pad((32, 32))(numbered(30, 40), ItemDraws(0, 0, 0))
    with pytest.raises(TrainerError, match="a size or a multiple"):
        Pad()

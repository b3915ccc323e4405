"""Several items in one: shares of labels are shares of pixels, and objects are where their pixels are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.datasets import Item, ItemDraws, Pipeline
from trainer.datasets.transforms import CopyPaste, CutMix, Mixing, Mixup, Mosaic, OneHot

COLORS = (50, 100, 150, 200)


class Shades:
    """Four items, each of one shade, its number as its class, with an object in the middle of the same shade."""

    class_names = ("a", "b", "c", "d")

    def __init__(self, *names: str, size: tuple[int, int] = (40, 60)) -> None:
        self.names, self.size = names, size

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Item:
        height, width = self.size
        left, top, right, bottom = width // 4 + 2 * index, height // 4, width // 2 + 2 * index, height // 2
        box = np.array([[left, top, right, bottom]], np.float32)
        masks = np.zeros((1, height, width), bool)
        masks[0, top:bottom, left:right] = True
        item = {
            "image": np.full((height, width, 3), COLORS[index], np.uint8),
            "label": np.int64(index),
            "labels_hot": np.eye(4, dtype=np.float32)[index],
            "boxes": box,
            "labels": np.array([index]),
            "area": np.array([masks.sum()], np.float32),
            "masks": masks,
            "mask": np.full((height, width), index, np.uint8),
        }
        return {name: item[name] for name in self.names}

    def source(self, index: int) -> str:
        return f"shade {index}"


def results(transform: Mixing, *names: str, count: int = 40) -> list[Item]:
    pipeline = Pipeline(Shades("image", *names), [transform])
    return [pipeline.item(index % 4, index) for index in range(count)]


def test_mixup_blends_labels_as_it_blends_pixels() -> None:
    shares = []
    for item in results(Mixup(alpha=1.0), "labels_hot", "label", count=400):
        expected = float(np.dot(item["labels_hot"], COLORS))
        assert np.abs(item["image"] - expected).max() <= 1.0
        assert item["labels_hot"].argmax() == item["label"]
        shares.append(item["labels_hot"].max())
    mixed = np.array([share for share in shares if share < 1])
    np.testing.assert_allclose(mixed.mean(), 0.75, atol=0.02)  # uniform on 0.5 to 1


def test_mixup_keeps_the_objects_of_both() -> None:
    for item in results(Mixup(), "boxes", "labels", "area", "masks"):
        assert len(item["labels"]) == len(item["boxes"]) == len(item["masks"]) == 2
        np.testing.assert_array_equal(item["boxes"][:, 0], 15 + 2 * item["labels"])


def test_mixup_fits_another_size_into_its_own() -> None:
    def other() -> Item:
        return {**Shades("image", "boxes", "labels", size=(80, 60))[1]}

    mixed = Mixup().mix(Shades("image", "boxes", "labels")[0], ItemDraws(0, 0, 0), other)
    assert mixed["image"].shape == (40, 60, 3)
    np.testing.assert_array_equal(mixed["boxes"][1], [15 + 8.5, 10, 15 + 16, 20])


def test_cutmix_gives_labels_by_area() -> None:
    for item in results(CutMix(), "labels_hot", "mask"):
        shares = [(item["image"][..., 0] == color).mean() for color in COLORS]
        np.testing.assert_allclose(item["labels_hot"], shares, atol=1e-6)
        np.testing.assert_array_equal(np.array(COLORS)[item["mask"]], item["image"][..., 0])


def test_the_rectangles_of_cutmix_have_beta_distributed_areas() -> None:
    pasted = []
    for item in results(CutMix(alpha=1.0), "label", "labels_hot", count=600):
        pasted.append(1 - item["labels_hot"][item["label"]])
    # Uniform before rectangles are cut at the edges; a center anywhere leaves (1 - s / 4)^2 of one of side s:
    # the mean of s^2 (1 - s / 4)^2 over uniform s^2 is 1/2 - 1/5 + 1/48, and a quarter is pasted on itself.
    np.testing.assert_allclose(np.mean(pasted), 0.75 * (1 / 2 - 1 / 5 + 1 / 48), atol=0.03)


def seen(item: Item, row: int, shade: int) -> np.ndarray:
    """The box around what of an object's mask shows its shade."""
    pixels = item["masks"][row] & (item["image"][..., 0] == shade)
    np.testing.assert_array_equal(pixels, item["masks"][row])
    rows, columns = np.flatnonzero(pixels.any(1)), np.flatnonzero(pixels.any(0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])


@pytest.mark.parametrize("transform", [CutMix(), CopyPaste(share=1.0), Mosaic((50, 70))])
def test_objects_are_where_their_pixels_are(transform: Mixing) -> None:
    counts = []
    for item in results(transform, "boxes", "labels", "area", "masks"):
        counts.append(len(item["labels"]))
        for row, label in enumerate(item["labels"]):
            np.testing.assert_allclose(seen(item, row, COLORS[label]), item["boxes"][row], atol=1.0)
            np.testing.assert_allclose(item["masks"][row].sum(), item["area"][row], rtol=0.15, atol=4)
    assert max(counts) > 1


def test_boxes_without_masks_are_dropped_once_they_are_hidden() -> None:
    first, second = Shades("image", "boxes", "labels")[0], Shades("image", "boxes", "labels")[2]
    pasted = CopyPaste(share=1.0).mix(first, ItemDraws(0, 0, 0), lambda: second)
    np.testing.assert_array_equal(pasted["boxes"], [first["boxes"][0], second["boxes"][0]])  # 4 of 15 columns are seen
    second["boxes"] = first["boxes"] + np.array([1, 0, 1, 0], np.float32)
    pasted = CopyPaste(share=1.0).mix(first, ItemDraws(0, 0, 0), lambda: second)
    np.testing.assert_array_equal(pasted["labels"], [2])
    assert (pasted["image"][10:20, 16:31] == COLORS[2]).all() and (pasted["image"] == COLORS[0]).sum() == 3 * 2250


def test_crowds_are_not_pasted_and_no_more_than_asked_for(make_item: Any) -> None:
    item = make_item(objects=8, seed=1)
    crowds = {**item, "crowd": np.ones(8, bool)}
    assert CopyPaste(share=1.0).mix(item, ItemDraws(0, 0, 0), lambda: crowds) is item
    few = CopyPaste(share=1.0, max_objects=2, min_visible=0.0).mix(
        {**item, "masks": np.zeros_like(item["masks"])}, ItemDraws(0, 0, 0), lambda: {**item, "crowd": ~crowds["crowd"]}
    )
    assert len(few["labels"]) == 2


def test_a_mosaic_shows_four_items_and_labels_by_area() -> None:
    items = results(Mosaic((50, 70)), "labels_hot", "mask", count=40)
    for item in items:
        assert item["image"].shape == (50, 70, 3)
        shares = [(item["image"][..., 0] == color).mean() for color in COLORS]
        np.testing.assert_allclose(item["labels_hot"], shares, atol=1e-6)
        np.testing.assert_array_equal(np.array(COLORS)[item["mask"]], item["image"][..., 0])
    assert {len(np.unique(item["image"])) for item in items} >= {2, 3, 4}


@pytest.mark.parametrize(("transform", "name"), [(Mixup(), "mixup"), (CutMix(), "cutmix"), (Mosaic((9, 9)), "mosaic")])
def test_items_of_one_class_are_told_to_be_made_soft_first(transform: Mixing, name: str) -> None:
    with pytest.raises(TrainerError, match=f"{name} needs soft labels[\\s\\S]*Put one_hot before {name}"):
        results(transform, "label", count=1)
    assert Pipeline(Shades("image", "label"), [OneHot(4), transform])[0]["labels_hot"].shape == (4,)


def test_what_can_not_be_mixed_is_refused() -> None:
    with pytest.raises(TrainerError, match="classes of a mask"):
        results(Mixup(), "mask", count=1)
    with pytest.raises(TrainerError, match=r"copy_paste needs boxes[\s\S]*boxes"):
        results(CopyPaste(), "label", count=1)
    gray = {"image": np.zeros((40, 60, 1), np.uint8)}
    with pytest.raises(TrainerError, match=r"differ[\s\S]*uint8\[1\][\s\S]*uint8\[3\]"):
        CutMix().mix(Shades("image")[0], ItemDraws(0, 0, 0), lambda: gray)
    with pytest.raises(TypeError, match="Pipeline"):
        CutMix()(gray, ItemDraws(0, 0, 0))


def test_smoothed_labels() -> None:
    item = OneHot(4, smoothing=0.2)({"label": np.int64(2)}, ItemDraws(0, 0, 0))
    np.testing.assert_allclose(item["labels_hot"], [0.05, 0.05, 0.85, 0.05])
    with pytest.raises(TrainerError, match=r"label 4[\s\S]*0 to 3"):
        OneHot(4)({"label": np.int64(4)}, ItemDraws(0, 0, 0))
    with pytest.raises(TrainerError, match="an item of image"):
        OneHot(4)({"image": np.zeros((2, 2, 1), np.uint8)}, ItemDraws(0, 0, 0))

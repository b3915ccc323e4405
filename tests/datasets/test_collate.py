"""Fields, and how items become batches: layouts, what fills up the rest, few sizes, errors with the item named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer import TrainerError
from trainer.datasets import FIELDS, ArrayDataset, Collation, check_item, collate
from trainer.datasets.collate import row_of

RANDOM = np.random.default_rng(0)


def picture(height: int = 4, width: int = 6, channels: int = 3) -> np.ndarray:
    return RANDOM.integers(0, 256, (height, width, channels), dtype=np.uint8)


def detection(count: int, *, height: int = 4, width: int = 6) -> dict[str, Any]:
    """An item of every field."""
    return {
        "image": picture(height, width),
        "target": picture(2 * height, 2 * width, 1),
        "label": np.int64(count),
        "labels_hot": RANDOM.random(5, np.float32),
        "mask": RANDOM.integers(0, 3, (height, width), dtype=np.uint8),
        "boxes": RANDOM.random((count, 4), np.float32) + 1,
        "labels": np.arange(count),
        "crowd": np.ones(count, bool),
        "area": RANDOM.random(count, np.float32) + 1,
        "masks": np.ones((count, height, width), bool),
        "keypoints": RANDOM.random((count, 3, 3), np.float32) + 1,
        "image_id": np.int64(7),
        "size": np.array([480, 640]),
        "placement": np.eye(3, dtype=np.float32),
        "tokens": np.arange(1, count + 1, dtype=np.int32),
    }


def test_every_field_becomes_what_the_table_says() -> None:
    items = [detection(2), detection(0), detection(9)]
    assert items[0].keys() == FIELDS.keys()
    batch = collate(items)
    shapes = {name: (array.dtype.name, array.shape) for name, array in batch.items()}
    assert shapes == {
        "image": ("uint8", (3, 3, 4, 6)), "target": ("uint8", (3, 1, 8, 12)), "label": ("int64", (3,)),
        "labels_hot": ("float32", (3, 5)), "mask": ("uint8", (3, 4, 6)), "boxes": ("float32", (3, 16, 4)),
        "labels": ("int64", (3, 16)), "crowd": ("bool", (3, 16)), "area": ("float32", (3, 16)),
        "masks": ("bool", (3, 16, 4, 6)), "keypoints": ("float32", (3, 16, 3, 3)), "image_id": ("int64", (3,)),
        "size": ("int64", (3, 2)), "placement": ("float32", (3, 3, 3)), "tokens": ("int32", (3, 16)),
        "length": ("int64", (3,)),
    }  # fmt: skip
    for row, item in enumerate(items):
        np.testing.assert_array_equal(batch["image"][row], np.moveaxis(item["image"], 2, 0))
        np.testing.assert_array_equal(batch["target"][row], np.moveaxis(item["target"], 2, 0))
        count = len(item["boxes"])
        for name in ("boxes", "labels", "crowd", "area", "masks", "keypoints", "tokens"):
            np.testing.assert_array_equal(batch[name][row, :count], item[name])
            assert (batch[name][row, count:] == (-1 if name == "labels" else 0)).all()
    assert batch["length"].tolist() == [2, 0, 9]


def test_images_lie_in_memory_with_the_channels_last() -> None:
    batch = collate([{"image": picture()}, {"image": picture()}])
    assert batch["image"].transpose(0, 2, 3, 1).flags.c_contiguous


@settings(deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=6))
def test_batches_have_few_sizes_and_room_for_all(counts: list[int]) -> None:
    batch = collate([{"labels": np.zeros(count, np.int64)} for count in counts])
    room = batch["labels"].shape[1]
    assert room in (8, 16, 32, 64, 128) and max(counts) <= room and (room == 8 or max(counts) > room // 2)
    assert ((batch["labels"] == 0).sum(1) == counts).all()


def test_a_fixed_room_is_kept_and_what_does_not_fit_is_named() -> None:
    items = [{"labels": np.zeros(count, np.int64)} for count in (1, 5)]
    assert collate(items, Collation(objects=5))["labels"].shape == (2, 5)
    with pytest.raises(TrainerError, match=r"b\.png: [\s\S]*5 objects[\s\S]*at most 4[\s\S]*max_objects"):
        collate(items, Collation(objects=4), where=["a.png", "b.png"].__getitem__)


def test_images_of_different_sizes_are_filled_up_where_asked_for() -> None:
    items = [
        {key: detection(1, height=h, width=w)[key] for key in ("image", "mask", "masks")} for h, w in [(4, 6), (9, 5)]
    ]
    with pytest.raises(TrainerError, match=r"b\.png: [\s\S]*uint8\[9, 5, 3\][\s\S]*uint8\[4, 6, 3\][\s\S]*image_sizes"):
        collate(items, where=["a.png", "b.png"].__getitem__)
    batch = collate(items, Collation(image_sizes=((8, 8), (16, 8), (32, 32))))
    assert batch["image"].shape == (2, 3, 16, 8) and batch["masks"].shape == (2, 8, 16, 8)
    np.testing.assert_array_equal(batch["image"][1, :, :9, :5], np.moveaxis(items[1]["image"], 2, 0))
    assert not batch["image"][1, :, 9:].any() and not batch["image"][1, :, :, 5:].any()
    assert (batch["mask"][0, 4:] == 255).all() and (batch["mask"][0, :, 6:] == 255).all()
    assert collate(items[:1], Collation(image_sizes=((8, 8), (16, 8))))["image"].shape == (1, 3, 8, 8)
    with pytest.raises(TrainerError, match=r"b\.png: [\s\S]*height 9[\s\S]*8x8, 4x20"):
        collate(items, Collation(image_sizes=((8, 8), (4, 20))), where=["a.png", "b.png"].__getitem__)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("image", np.zeros((3, 4), np.uint8)),
        ("image", np.zeros((3, 4, 3), np.float64)),
        ("label", np.int32(3)),
        ("label", 3),
        ("boxes", np.zeros((2, 5), np.float32)),
        ("boxes", np.zeros(4, np.float32)),
        ("crowd", np.zeros(4, np.uint8)),
        ("mask", np.zeros((4, 4, 1), np.uint8)),
    ],
)
def test_a_field_that_is_not_what_its_name_says_is_refused(name: str, value: Any) -> None:
    with pytest.raises(TrainerError, match=rf"here: the field '{name}'[\s\S]*expected: .*\["):
        check_item({name: value}, where="here")


def test_fields_of_one_item_must_belong_together() -> None:
    with pytest.raises(TrainerError, match=r"'labels' and 'boxes'[\s\S]*objects: 3 and 2"):
        check_item({"boxes": np.zeros((2, 4), np.float32), "labels": np.zeros(3, np.int64)})
    with pytest.raises(TrainerError, match=r"'mask' and 'image'[\s\S]*width: 5 and 6"):
        check_item({"image": picture(4, 6), "mask": np.zeros((4, 5), np.uint8)})


def test_items_of_other_fields_shapes_or_dtypes_do_not_go_into_one_batch() -> None:
    for first, second in [
        ({"x": np.zeros(2, np.uint8)}, {"x": np.zeros(3, np.uint8)}),
        ({"x": np.zeros(2, np.uint8)}, {"x": np.zeros(2, np.uint16)}),
        ({"x": np.zeros(2, np.uint8)}, {"x": np.zeros((2, 1), np.uint8)}),
        ({"x": np.zeros(2, np.uint8)}, {"y": np.zeros(2, np.uint8)}),
    ]:
        with pytest.raises(TrainerError, match=r"b: items of one batch differ[\s\S]*found: [\s\S]*uint8\[2\]"):
            collate([first, second], where=["a", "b"].__getitem__)


def test_rows_of_a_batch_are_items_again() -> None:
    item = {"image": picture(), "label": np.int64(3)}
    again = row_of(collate([item, item]), 1)
    np.testing.assert_array_equal(again["image"], item["image"])
    assert again["label"] == 3


def test_arrays_lie_as_in_a_batch_and_their_items_as_items() -> None:
    images = RANDOM.integers(0, 256, (5, 3, 4, 6), dtype=np.uint8)
    dataset = ArrayDataset({"image": images, "label": np.arange(5)})
    check_item(dataset[2])
    np.testing.assert_array_equal(dataset[2]["image"], np.moveaxis(images[2], 0, 2))
    chosen = np.array([4, 0])
    np.testing.assert_array_equal(collate([dataset[4], dataset[0]])["image"], dataset.take(chosen)["image"])
    with pytest.raises(TrainerError, match="'boxes'"):
        ArrayDataset({"boxes": np.zeros((5, 2, 4), np.float32)})


def test_the_manual_lists_every_field() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    for name, field in FIELDS.items():
        assert f"| `{name}` |" in manual
        assert field.meaning.split(";")[0].split(",")[0] in manual

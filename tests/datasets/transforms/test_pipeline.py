"""The pipeline: what an item's transforms depend on, which are joined, and how others are asked for."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.datasets import ArrayDataset, Dataset, Item, check_item
from trainer.datasets.transforms import (
    Affine,
    ColorJitter,
    Cutout,
    HorizontalFlip,
    ItemDraws,
    Mixing,
    OtherItem,
    Pipeline,
    Resize,
    Rotate,
    Transform,
)
from trainer.datasets.transforms.warp import about_the_middle, rotation


@dataclass
class Add(Transform):
    """Adds what it draws, times `step`, to the field `value`."""

    step: float = 1.0

    def __call__(self, item: Item, draws: ItemDraws) -> Item:
        return {"value": item["value"] + self.step * draws.uniform()}


@dataclass
class AddOthers(Mixing):
    """Adds the values of two others."""

    def mix(self, item: Item, draws: ItemDraws, other: OtherItem) -> Item:
        return {"value": item["value"] + other()["value"] + other()["value"]}


@dataclass
class Turn(Rotate):
    """Always by `degrees`."""

    def matrix(self, size: tuple[int, int], draws: ItemDraws) -> np.ndarray:
        return about_the_middle(rotation(self.degrees), size)


def numbers(count: int = 20) -> ArrayDataset:
    return ArrayDataset({"value": np.zeros(count)})


def same(first: Item, second: Item) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def test_an_item_is_a_function_of_seed_epoch_and_index(made: Any) -> None:
    transforms = [HorizontalFlip(), Rotate(20.0), Affine(scale=(0.8, 1.2), shift=0.1), Resize((16, 16))]
    pipeline = Pipeline(made, transforms, seed=3)
    first = pipeline.item(4, 2)
    for index in (7, 1, 4):
        pipeline.item(index, 0)
    assert same(first, pipeline.item(4, 2)) and same(first, Pipeline(made, list(transforms), seed=3).item(4, 2))
    others = [pipeline.item(4, 3), Pipeline(made, transforms, seed=4).item(4, 2)]
    assert not any(np.array_equal(first["image"], other["image"]) for other in others)


def test_a_pipeline_goes_to_another_process() -> None:
    pipeline = Pipeline(numbers(), [Add(), AddOthers(), Add(probability=0.5)], seed=3)
    assert same(pickle.loads(pickle.dumps(pipeline)).item(4, 2), pipeline.item(4, 2))


def test_a_transform_draws_by_its_position() -> None:
    def last(*transforms: Transform) -> float:
        return float(Pipeline(numbers(), transforms).item(0, 0)["value"])

    assert last(Add(0.0), Add()) == last(HorizontalFlip(probability=0.0), Add()) != last(Add())


def test_the_probability_holds_for_items() -> None:
    pipeline = Pipeline(numbers(4000), [Add(probability=0.25)])
    share = np.mean([pipeline.item(index, 0)["value"] > 0 for index in range(4000)])
    assert abs(share - 0.25) < 0.03


def test_a_pipeline_is_a_data_set_of_epoch_0(made: Any) -> None:
    pipeline = Pipeline(made, [Rotate(20.0)])
    assert isinstance(pipeline, Dataset)
    assert same(pipeline[2], pipeline.item(2, 0)) and not same(pipeline[2], pipeline.item(2, 1))
    assert (len(pipeline), pipeline.source(3), pipeline.class_names) == (10, "made[3]", made.class_names)


def test_a_pipeline_of_a_pipeline_draws_anew_in_each_epoch() -> None:
    inner = Pipeline(numbers(), [Add()])
    assert same(Pipeline(inner, [Add()]).item(3, 4), Pipeline(numbers(), [Add(), Add()]).item(3, 4))


def test_consecutive_warps_are_sampled_once(made: Any) -> None:
    joined = Pipeline(made, [Turn(45.0), Turn(-45.0)]).item(0, 0)
    # sampled twice, the corners would be lost; Pillow rounds 254.9999 down
    np.testing.assert_allclose(joined["image"].astype(int), made[0]["image"], atol=1)
    np.testing.assert_allclose(joined["boxes"], made[0]["boxes"], atol=1e-4)
    apart = Pipeline(made, [Turn(45.0), HorizontalFlip(probability=1.0), Turn(45.0)]).item(0, 0)
    assert apart["image"][0, 0].max() == 0


def test_others_come_through_what_is_before_in_the_pipeline() -> None:
    pipeline = Pipeline(numbers(50), [Add(), AddOthers(), Add(step=0.0)])
    first = [float(ItemDraws(0, 5, index, 0).uniform()) for index in range(50)]
    draws = ItemDraws(0, 5, 7, 1)
    drawn = [draws.integer(50), draws.integer(50)]
    np.testing.assert_allclose(pipeline.item(7, 5)["value"], first[7] + sum(first[index] for index in drawn))


class Broken(ArrayDataset):
    """Odd items can't be read."""

    def __getitem__(self, index: int) -> Item:
        if index % 2:
            raise TrainerError("unreadable", where=self.source(index))
        return super().__getitem__(index)


def test_another_is_drawn_for_one_that_cannot_be_read() -> None:
    pipeline = Pipeline(Broken({"value": np.arange(10.0)}), [AddOthers()])
    assert {float(pipeline.item(0, epoch)["value"]) % 2 for epoch in range(20)} == {0.0}


def test_an_item_that_cannot_be_read_is_raised() -> None:
    with pytest.raises(TrainerError, match=r"array\[1\]: unreadable"):
        Pipeline(Broken({"value": np.arange(10.0)}), [AddOthers()]).item(1, 0)


@pytest.mark.parametrize("transform", [ColorJitter(), Cutout(), Resize((8, 8)), Rotate(5.0)])
def test_what_a_transform_can_not_take_is_told_with_its_item(transform: Transform) -> None:
    with pytest.raises(TrainerError, match=r"^array\[4\]: .*needs an? (image|picture)[\s\S]*an item of value"):
        Pipeline(numbers(), [transform]).item(4, 0)


def test_how_large_images_must_be_is_said_where_nothing_before_minds() -> None:
    assert Pipeline(numbers(), [HorizontalFlip(), Resize((24, 32))]).decode_hint == (24, 32)
    assert Pipeline(numbers(), [Rotate(5.0), Resize((24, 32))]).decode_hint is None
    assert Pipeline(numbers(), [Resize((24, 32), probability=0.5)]).decode_hint is None
    assert Pipeline(numbers(), [HorizontalFlip()]).decode_hint is None
    assert Pipeline(numbers(), []).decode_hint is None


def test_what_comes_out_is_of_its_fields_forms(made: Any) -> None:
    check_item(Pipeline(made, [HorizontalFlip(), Rotate(20.0), Resize((17, 5))]).item(1, 1))

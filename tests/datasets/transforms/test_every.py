"""What holds for every transform, on items of every kind."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticUndefined

from trainer.configs.choice import OWN_TAG, choice_of
from trainer.configs.transforms import TRANSFORMS, Transforming
from trainer.datasets import FIELDS, Item, Pipeline, Transform, check_item
from trainer.datasets import transforms as t
from trainer.datasets.fields import OBJECTS
from trainer.datasets.transforms.build import transforms_for

ALL: list[Transform] = [
    t.Resize((20, 17)),
    t.Letterbox((20, 33)),
    t.ResizeShorterSide(15, longest=40),
    t.ResizeToMultiple(8),
    t.Pad(multiple=16),
    t.RandomCrop((13, 9)),
    t.CenterCrop((13, 9)),
    t.RandomResizedCrop((16, 12)),
    t.RandomScaledCrop((16, 12)),
    t.RandomIoUCrop(),
    t.HorizontalFlip(probability=1.0, keypoint_pairs=((0, 1),)),
    t.VerticalFlip(probability=1.0),
    t.QuarterTurn(),
    t.Rotate(25.0),
    t.Affine(scale=(0.7, 1.4), shift=0.2, degrees=15, shear=10),
    t.Perspective(0.5),
    t.ColorJitter(0.4, 0.4, 0.4, 0.1),
    t.Grayscale(),
    t.GaussianBlur(),
    t.GaussianNoise(),
    t.Cutout(count=2),
    t.Mosaic((18, 21)),
    t.Mixup(),
    t.CutMix(),
    t.CopyPaste(share=0.8),
    t.Normalize((0.5,), (0.25,)),
    t.OneHot(3),
]
CHOICE = choice_of(Transforming)
SECTIONS = {name: CHOICE.section(name) for name in TRANSFORMS if name != OWN_TAG}


class Some:
    """A data set of some given items."""

    class_names = ("circle", "square", "star")

    def __init__(self, items: list[Item]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Item:
        return self.items[index]

    def source(self, index: int) -> str:
        return f"some[{index}]"


def fields(item: Item, *names: str) -> Item:
    return {name: item[name] for name in names}


def kinds(make_item: Any, name: str) -> list[Item]:
    """Items of one kind, as a data set has them."""
    few = [{"seed": seed} for seed in range(3)]
    items = {
        "everything": lambda **seed: make_item(**seed),
        "gray": lambda **seed: make_item(channels=1, **seed),
        "one pixel": lambda **seed: make_item(1, 1, objects=1, **seed),
        "odd sizes": lambda seed: make_item(7 + 6 * seed, 31 - 4 * seed, seed=seed),
        "no boxes": lambda **seed: make_item(objects=0, **seed),
        "image and label": lambda **seed: fields(make_item(**seed), "image", "label", "labels_hot"),
        "image and mask": lambda **seed: fields(make_item(**seed), "image", "mask"),
        "boxes only": lambda **seed: fields(make_item(**seed), "image", "boxes", "labels"),
        "floats": lambda **seed: {**make_item(**seed), "image": make_item(**seed)["image"].astype(np.float32) / 255},
    }[name]
    return [items(**one) for one in few]


KINDS = ("everything", "gray", "one pixel", "odd sizes", "no boxes", "image and label", "image and mask", "boxes only",
         "floats")  # fmt: skip

REFUSED = {
    t.CopyPaste: ("image and label", "image and mask"),  # without boxes
    t.OneHot: ("image and mask", "boxes only"),  # without a label
    t.GaussianBlur: ("floats",),
    t.Mixup: ("image and mask",),
}
TAKEN = [(one, kind) for one in ALL for kind in KINDS if kind not in REFUSED.get(type(one), ())]


@pytest.mark.parametrize(
    ("transform", "kind"), TAKEN, ids=lambda one: one if isinstance(one, str) else type(one).__name__
)
def test_what_comes_out_is_whole_and_what_goes_in_stays(transform: Transform, kind: str, make_item: Any) -> None:
    items = kinds(make_item, kind)
    if isinstance(transform, t.Mixup):
        items = [{name: value for name, value in item.items() if name != "mask"} for item in items]
    before = [{name: value.copy() for name, value in item.items()} for item in items]
    for item in items:
        for value in item.values():
            if value.ndim:
                value.setflags(write=False)
    pipeline = Pipeline(Some(items), [transform], seed=1)
    for index in range(3):
        result = pipeline.item(index, epoch=2)
        check_item(result)
        assert set(items[index]) <= set(result)
        assert inside(result)
        again = Pipeline(Some(items), [transform], seed=1).item(index, epoch=2)
        for name, value in result.items():
            np.testing.assert_array_equal(value, again[name])
    for item, copy in zip(items, before, strict=True):
        for name, value in copy.items():
            np.testing.assert_array_equal(item[name], value)


def inside(item: Item) -> bool:
    """Whether boxes and visible keypoints lie in the picture."""
    height, width = item["image"].shape[:2]
    boxes, points = item.get("boxes", np.zeros((0, 4))), item.get("keypoints", np.zeros((0, 0, 3)))
    return bool(
        (boxes >= 0).all()
        and (boxes <= (width, height, width, height)).all()
        and (boxes[:, 2:] >= boxes[:, :2]).all()
        and (points[..., :2] >= 0).all()
        and (points[..., :2] <= (width, height)).all()
    )


@st.composite
def boxed_items(draw: st.DrawFn) -> Item:
    """Pictures of any size with any boxes in them, some without area."""
    height, width = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    share = st.floats(0, 1, width=32)
    rows = draw(st.lists(st.tuples(share, share, share, share), max_size=5))
    ends = np.array(rows, np.float32).reshape(-1, 2, 2)
    boxes = np.concatenate([ends.min(1), ends.max(1)], axis=1) * np.array([width, height] * 2, np.float32)
    count = len(boxes)
    rng = np.random.default_rng(count)
    return {
        "image": rng.integers(0, 256, (height, width, draw(st.sampled_from((1, 3)))), dtype=np.uint8),
        "boxes": boxes,
        "labels": np.arange(count),
        "crowd": np.arange(count) % 2 == 1,
        "area": ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).astype(np.float32),
        "masks": np.zeros((count, height, width), bool) | (rng.uniform(size=(height, width)) < 0.7),
        "keypoints": np.concatenate([ends, np.full((count, 2, 1), 2, np.float32)], axis=2) * (width, height, 1),
        "labels_hot": np.array([0.25, 0.75], np.float32),
        "label": np.int64(1),
    }


@pytest.mark.parametrize("transform", ALL, ids=lambda one: type(one).__name__)
@given(item=boxed_items(), epoch=st.integers(0, 2**31))
@settings(max_examples=12, deadline=None)
def test_rows_stay_together_and_boxes_inside(transform: Transform, item: Item, epoch: int) -> None:
    item = {**item, "keypoints": item["keypoints"].astype(np.float32)}
    result = Pipeline(Some([item]), [transform]).item(0, epoch)
    check_item(result)
    assert inside(result)
    counts = {len(result[name]) for name, field in FIELDS.items() if field.axes[:1] == (OBJECTS,) and name in result}
    assert len(counts) == 1
    assert (result["area"] >= 0).all()
    assert np.isclose(result["labels_hot"].sum(), 1, atol=1e-5)
    if not isinstance(transform, t.Mixing):
        assert np.isin(result["labels"], item["labels"]).all()
        np.testing.assert_array_equal(result["crowd"], result["labels"] % 2 == 1)


@pytest.mark.parametrize("section", SECTIONS.values(), ids=lambda one: one.__name__)
def test_yaml_and_python_have_the_same_arguments_and_defaults(section: Any) -> None:
    module, name = section.code.split(":")
    kind = getattr(__import__(f"trainer.datasets.transforms.{module}", fromlist=[name]), name)
    assert getattr(t, name) is kind
    parameters = inspect.signature(kind).parameters
    assert set(parameters) == set(section.model_fields) - {"name"}
    for key, parameter in parameters.items():
        default = section.model_fields[key].default
        expected = PydanticUndefined if parameter.default is inspect.Parameter.empty else parameter.default
        if (name, key) != ("OneHot", "classes"):  # in YAML the data set may say how many
            assert default == expected, key


def test_every_transform_has_a_section_and_is_tried_here() -> None:
    made = {type(one).__name__ for one in ALL}
    assert {section.code.split(":")[1] for section in SECTIONS.values()} == made
    public = {
        name for name in t.__all__ if inspect.isclass(getattr(t, name)) and dataclasses.is_dataclass(getattr(t, name))
    }
    assert public - {"Transform", "Warp", "Mixing"} == made


def test_the_manual_names_every_transform(repository: Path) -> None:
    manual = (repository / "docs" / "data.md").read_text(encoding="utf-8")
    assert [word for word in SECTIONS if f"`{word}`" not in manual] == []


def test_a_transform_that_is_not_wanted_leaves_the_item_alone(make_item: Any) -> None:
    for transform in ALL:
        item = make_item()
        never = dataclasses.replace(transform, probability=0.0)
        assert Pipeline(Some([item]), [never])[0] is item, transform


def test_sections_make_transforms() -> None:
    made = transforms_for([SECTIONS["one_hot"](name="one_hot", smoothing=0.3)], Some([]))
    assert made == [t.OneHot(3, smoothing=0.3)]
    crop = SECTIONS["random_crop"](name="random_crop", size=24, probability=0.5)
    assert transforms_for([crop], Some([])) == [t.RandomCrop((24, 24), probability=0.5)]

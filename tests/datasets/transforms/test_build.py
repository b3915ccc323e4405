"""Transforms of a configuration: those of the product, and a class of the user's own from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.configs.custom_class import forget_own_code
from trainer.configs.transforms import OwnTransform
from trainer.configs.transforms.pixels import OneHotConfig
from trainer.configs.transforms.space import PadConfig, ResizeConfig
from trainer.datasets import ItemDraws, Pipeline
from trainer.datasets.transforms import HorizontalFlip, Pad, Resize
from trainer.datasets.transforms.build import pipeline_for

OWN = '''\
from trainer.datasets import Transform


class Posterize(Transform):
    """Keeps `least` to `most` bits of each color."""

    def __init__(self, least=3, most=6):
        self.least, self.most = least, most

    def __call__(self, item, draws):
        bits = self.least + draws.integer(self.most - self.least + 1)
        return {**item, "image": item["image"] & (0xFF << 8 - bits & 0xFF)}


class Nothing:
    pass
'''


@pytest.fixture
def own(tmp_path: Path) -> str:
    forget_own_code()
    (tmp_path / "mine.py").write_text(OWN)
    return str(tmp_path / "mine.py")


def test_a_class_of_ones_own_gets_its_options_and_its_probability(made: Any, own: str) -> None:
    section = OwnTransform(name=f"{own}:Posterize", options={"least": 2, "most": 3}, probability=0.5)
    pipeline = pipeline_for(made, [section, ResizeConfig(name="resize", size=8)], 5)
    assert isinstance(pipeline, Pipeline) and pipeline.seed == 5
    last = []
    for epoch in range(60):
        image = Pipeline(made, pipeline.transforms[:1], 5).item(0, epoch)["image"]
        last.append(next(bits for bits in range(1, 9) if not (image & (0xFF >> bits)).any()))
    assert set(last) == {2, 3, 8} and 15 < last.count(8) < 45
    assert pipeline.item(0, 0)["image"].shape == (8, 8, 3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Missing", {}, "no such transform"),
        ("Nothing", {}, r"not a transform[\s\S]*trainer.datasets.Transform"),
        ("Posterize", {"fewest": 1}, r"can't be created[\s\S]*fewest"),
    ],
)
def test_what_is_wrong_with_a_class_of_ones_own_is_said(
    made: Any, own: str, name: str, options: dict[str, int], message: str
) -> None:
    with pytest.raises(TrainerError, match=message):
        pipeline_for(made, [OwnTransform(name=f"{own}:{name}", options=options)], 0)


def test_the_data_set_says_how_many_classes_there_are(made: Any) -> None:
    item = pipeline_for(made, [OneHotConfig(name="one_hot")], 0)[1]
    np.testing.assert_array_equal(item["labels_hot"], [0, 1, 0])
    made.class_names = ()
    with pytest.raises(TrainerError, match=r"needs the number of classes[\s\S]*`classes` of one_hot"):
        pipeline_for(made, [OneHotConfig(name="one_hot")], 0)


def test_pad_knows_the_largest_image_of_the_data_set(made: Any) -> None:
    made.sizes = np.array([[24, 32], [50, 20]])
    section = PadConfig(name="pad", multiple=16, to_largest=True)
    assert pipeline_for(made, [section], 0)[0]["image"].shape == (64, 32, 3)
    larger = Pad(multiple=16, at_least=(50, 32))({"image": np.zeros((51, 70, 3), np.uint8)}, ItemDraws(0, 0, 0))
    assert larger["image"].shape == (64, 80, 3)
    with pytest.raises(TrainerError, match="must be the first transform"):
        pipeline_for(made, [ResizeConfig(name="resize", size=8), section], 0)
    del made.sizes
    with pytest.raises(TrainerError, match="can't provide the size of each item"):
        pipeline_for(made, [section], 0)
    with pytest.raises(TrainerError, match="works in configurations only"):
        Pad(multiple=16, to_largest=True)


def test_transforms_of_the_configuration_take_the_place_of_the_tasks(made: Any) -> None:
    of_the_task = Pipeline(made, [HorizontalFlip()], 3)
    assert pipeline_for(made, None, 0) is made and pipeline_for(of_the_task, None, 0) is of_the_task
    assert pipeline_for(made, (), 0) is made and pipeline_for(of_the_task, (), 0) is made
    replaced = pipeline_for(of_the_task, [ResizeConfig(name="resize", size=8)], 3)
    assert isinstance(replaced, Pipeline) and replaced.dataset is made and replaced.transforms == (Resize((8, 8)),)

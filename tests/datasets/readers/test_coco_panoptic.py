"""Panoptic segments: classes of all pixels, objects of things, and pictures that don't fit their list."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from trainer.datasets import check_item
from trainer.datasets.readers.coco_panoptic import CocoPanoptic
from trainer.datasets.readers.opening import Opening

SKY, CAT = {"id": 300, "category_id": 200}, {"id": 70_000, "category_id": 17, "iscrowd": 1}


@pytest.fixture
def dataset(tmp_path, picture, text):
    def make(segments=(CAT, SKY), numbers=None, image_id=4, **options):
        picture("images/a.png", 4, 6)
        if numbers is None:
            numbers = np.zeros((4, 6), np.int64)
            numbers[:2], numbers[2:4, 1:3] = 300, 70_000
        colors = np.stack([numbers & 255, numbers >> 8 & 255, numbers >> 16], axis=-1).astype(np.uint8)
        (tmp_path / "segments").mkdir(exist_ok=True)
        Image.fromarray(colors).save(tmp_path / "segments" / "a.png")
        content = {
            "images": [{"id": 4, "file_name": "a.png", "height": 4, "width": 6}],
            "categories": [{"id": 200, "name": "sky", "isthing": 0}, {"id": 17, "name": "cat", "isthing": 1}],
            "annotations": [{"image_id": image_id, "file_name": "a.png", "segments_info": list(segments)}],
        }
        text("panoptic.json", content)
        return CocoPanoptic(tmp_path, images="images", segments="segments", annotations="panoptic.json", **options)

    return make


def test_pixels_have_classes_and_things_are_objects(dataset):
    data = dataset()
    item = data[0]
    check_item(item)
    assert data.class_names == ("cat", "sky") and data.is_thing.tolist() == [True, False]
    assert item["mask"].tolist() == [[1] * 6, [1] * 6, [255, 0, 0, 255, 255, 255], [255, 0, 0, 255, 255, 255]]
    assert item["boxes"].tolist() == [[1, 2, 3, 4]] and item["labels"].tolist() == [0]
    assert item["crowd"].tolist() == [True] and item["area"].tolist() == [4]
    assert item["masks"].tolist() == [(item["mask"] == 0).tolist()]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"segments": [SKY]}, "don't match the list of segments\n  found:    only in the PNG: [70000]"),
        ({"segments": [SKY, CAT, {"id": 5, "category_id": 17}]}, "only in the list: [5]"),
        ({"segments": [SKY, {**CAT, "category_id": 18}]}, "unknown category of a segment\n  found:    category id 18"),
        ({"numbers": np.full((3, 6), 300)}, "the size of a mask doesn't match its image"),
        ({"image_id": 5}, "an annotation belongs to no image\n  found:    image id 5"),
        ({"image_id": 5, "opening": Opening(on_problem=lambda error: None)}, "an image without annotation"),
    ],
)  # fmt: skip
def test_segments_that_cant_be_used_are_named(dataset, refusal, options, says):
    assert says in refusal(lambda: dataset(**options)[0])

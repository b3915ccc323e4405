"""Boxes keep their place through every format; what a format can't say is counted."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.datasets.readers.conftest import picture, refusal, text  # noqa: F401 - fixtures
from trainer.datasets.convert import FORMATS, convert
from trainer.datasets.readers.coco import CocoDataset
from trainer.datasets.readers.voc import VocDataset
from trainer.datasets.readers.yolo import YoloDataset

OPEN = {
    "coco": lambda root: CocoDataset(root, images="images", annotations="annotations.json"),
    "voc": VocDataset,
    "yolo": YoloDataset,
}


def content(dataset, index):
    """An item's boxes (float64, as far as a picture's pixels matter) with the names of their classes."""
    item = dataset[index]
    names = [dataset.class_names[label] for label in item["labels"]]
    crowd = item.get("crowd", np.zeros(len(names), bool))
    return item["image"], item["boxes"], names, crowd


@pytest.fixture
def subset(shared_data):
    return CocoDataset(shared_data / "coco_subset", images="images/val", annotations="annotations/instances_val.json")


@pytest.mark.parametrize("through", ["voc", "yolo"])
def test_real_annotations_come_back_as_they_were(subset, tmp_path, through):
    there = convert(subset, through, tmp_path / through)
    back = convert(OPEN[through](tmp_path / through), "coco", tmp_path / "coco")
    crowds = int(subset.index.crowd.sum())
    assert crowds == 7 and there.lost["masks left out"] == 495
    assert there.boxes == back.boxes == (495 if through == "voc" else 488)
    again = OPEN["coco"](tmp_path / "coco")
    by_name = {name: row for row, name in enumerate(again.index.file_names)}
    for row, name in enumerate(subset.index.file_names):
        here, there_ = subset.index.of_image(row), again.index.of_image(by_name[name])
        keep = np.ones(here.stop - here.start, bool) if through == "voc" else ~subset.index.crowd[here]
        assert again.index.boxes[there_].tolist() == subset.index.boxes[here][keep].tolist()
        ours = [again.class_names[label] for label in again.index.labels[there_]]
        assert ours == [subset.class_names[label] for label in subset.index.labels[here][keep]]
        assert again.index.crowd[there_].tolist() == subset.index.crowd[here][keep].tolist()


@pytest.fixture
def small(tmp_path, picture, text):  # noqa: F811
    picture("images/a.png", 30, 40)
    picture("images/deep/b.png", 20, 50)
    images = [
        {"id": 1, "file_name": "a.png", "height": 30, "width": 40},
        {"id": 2, "file_name": "deep/b.png"},
    ]
    boxes = [[1, 2.25, 10.5, 20.125], [0, 0, 40, 30], [3.3, 4.4, 7.77, 8.88]]
    annotations = [
        {"id": n, "image_id": 1, "category_id": 1 + n % 2, "bbox": box, "iscrowd": n // 2, "area": 5}
        for n, box in enumerate(boxes)
    ]
    categories = [{"id": 1, "name": "one & only"}, {"id": 2, "name": "two"}]
    text("annotations.json", {"images": images, "annotations": annotations, "categories": categories})
    return OPEN["coco"](tmp_path)


@pytest.mark.parametrize("path", list(itertools.permutations(FORMATS)))
def test_items_are_the_same_in_every_format(small, tmp_path, path):
    dataset, has_crowds = small, True
    for step, form in enumerate(path):
        convert(dataset, form, tmp_path / f"{step}")
        dataset = OPEN[form](tmp_path / f"{step}")
        has_crowds &= form != "yolo"
        for index in range(2):
            image, boxes, names, crowd = content(small, index)
            keep = np.ones(len(names), bool) if has_crowds else ~crowd
            ours = content(dataset, index)
            np.testing.assert_array_equal(ours[0], image)
            np.testing.assert_allclose(ours[1], boxes[keep], atol=1e-5)
            assert ours[2] == [name for name, kept in zip(names, keep, strict=True) if kept]
            assert ours[3].tolist() == crowd[keep].tolist()


def test_what_a_format_cant_say_is_counted(small, tmp_path):
    assert dict(convert(small, "voc", tmp_path / "voc").lost) == {"crowds became difficult objects": 1}
    assert dict(convert(small, "yolo", tmp_path / "yolo").lost) == {"crowds left out": 1}
    assert dict(convert(small, "coco", tmp_path / "coco").lost) == {}


@pytest.mark.parametrize("how", ["copy", "link", "none"])
def test_images_are_copied_linked_or_left(small, tmp_path, how):
    convert(small, "yolo", tmp_path / "yolo", images=how)
    image = tmp_path / "yolo" / "images" / "deep" / "b.png"
    assert image.exists() is (how != "none") and not image.is_symlink()
    assert how == "none" or image.samefile(tmp_path / "images/deep/b.png") is (how == "link")
    assert (tmp_path / "yolo" / "labels" / "deep" / "b.txt").read_text() == ""


def test_an_image_that_cant_be_used_stops_or_is_skipped(small, tmp_path, refusal):  # noqa: F811
    (tmp_path / "images/a.png").unlink()
    assert "a.png: no such file" in refusal(lambda: convert(small, "voc", tmp_path / "raised"))
    done = convert(small, "voc", tmp_path / "skipped", on_error="skip")
    assert done.images == 1 and len(done.skipped) == 1 and "image 1 (a.png)" in done.skipped[0][0]


def test_nothing_is_written_over(small, tmp_path, refusal):  # noqa: F811
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "the folder is not empty" in refusal(lambda: convert(small, "voc", tmp_path / "full"))


def test_names_that_would_share_a_file_are_refused(small, tmp_path, picture, text, refusal):  # noqa: F811
    Image.open(tmp_path / "images/a.png").save(tmp_path / "images/a.jpg")
    images = [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "a.jpg"}]
    text("annotations.json", {"images": images, "annotations": [], "categories": []})
    says = refusal(lambda: convert(OPEN["coco"](tmp_path), "yolo", tmp_path / "yolo"))
    assert "two images have the same name except for the extension\n  found:    a.png and a.jpg" in says


def test_progress_counts_images(small, tmp_path: Path):
    heard = []
    convert(small, "coco", tmp_path / "coco", progress=lambda *done: heard.append(done))
    assert heard == [(1, 2), (2, 2)]

"""Items of COCO: what is in them, at what scale, and each kind of annotation that can't be used."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from pycocotools import mask as peer

from trainer.datasets import check_item
from trainer.datasets.readers.coco import CocoDataset
from trainer.datasets.readers.opening import Opening

RUNS = [20 * 4, 20 * 2, 20 * 24]  # the columns 4 and 5 of 20x30 pixels


@pytest.fixture
def dataset(tmp_path, picture, text):
    """dataset(annotation, …): a data set of one image "a.png" of 20x30 pixels with such annotations."""
    picture("images/a.png")

    def make(*annotations, image=None, categories=None, opening=Opening(), **options):  # noqa: B008
        complete = [
            {"id": 10 + n, "image_id": 5, "category_id": 7, "bbox": [2, 3, 10, 8], **one}
            for n, one in enumerate(annotations)
        ]
        content = {
            "images": [{"id": 5, "file_name": "a.png", "height": 20, "width": 30, **(image or {})}],
            "categories": categories or [{"id": 7, "name": "cat"}],
            "annotations": complete,
        }
        text("annotations.json", content)
        settings = {"images": "images", "annotations": "annotations.json", **options}
        return CocoDataset(tmp_path, **settings, opening=opening)

    return make


def test_an_item_has_boxes_by_their_corners(dataset, picture):
    item = dataset({"area": 33, "iscrowd": 1}, {"bbox": [0, 0, 30, 20]})[0]
    check_item(item)
    np.testing.assert_array_equal(item["image"], picture("again.png"))
    assert item["boxes"].tolist() == [[2, 3, 12, 11], [0, 0, 30, 20]]
    assert item["labels"].tolist() == [0, 0] and item["crowd"].tolist() == [True, False]
    assert item["area"].tolist() == [33, 600] and item["image_id"] == 5 and item["size"].tolist() == [20, 30]


def test_an_image_without_annotations_has_no_boxes(dataset):
    item = dataset(masks=True)[0]
    check_item(item)
    assert item["boxes"].shape == (0, 4) and item["masks"].shape == (0, 20, 30)


@pytest.mark.parametrize("form", ["list", "text"])
def test_masks_of_run_lengths(dataset, form):
    expected = np.zeros((20, 30), bool)
    expected[:, 4:6] = True
    text = peer.encode(np.asfortranarray(expected.astype(np.uint8)))["counts"].decode()
    counts = RUNS if form == "list" else text
    item = dataset({"segmentation": {"size": [20, 30], "counts": counts}}, masks=True)[0]
    np.testing.assert_array_equal(item["masks"], expected[None])


def test_masks_of_several_polygons_are_their_union(dataset):
    polygons = [[2, 3, 12, 3, 12, 11, 2, 11], [20, 5, 25, 5, 25, 9]]
    item = dataset({"segmentation": polygons}, masks=True)[0]
    union = peer.decode(peer.merge(peer.frPyObjects(polygons, 20, 30)))
    np.testing.assert_array_equal(item["masks"][0], union.astype(bool))
    assert item["masks"][0][3:11, 2:12].all()


def test_keypoints_are_triples(dataset):
    categories = [{"id": 7, "name": "person", "keypoints": ["nose", "tail"]}]
    annotation = {"keypoints": [1, 2, 2, 0, 0, 0], "num_keypoints": 1}
    data = dataset(annotation, {}, categories=categories, keypoints=True)
    assert data[0]["keypoints"].tolist() == [[[1, 2, 2], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]]
    assert data.index.visible_keypoints.tolist() == [1, 0]


def test_scaled_decoding_scales_annotations_too(dataset, picture):
    picture("images/a.jpg", 80, 120, quality=95)
    size = {"file_name": "a.jpg", "height": 80, "width": 120}
    runs = {"size": [80, 120], "counts": [80 * 8, 80 * 16, 80 * 96]}
    categories = [{"id": 7, "name": "person", "keypoints": ["nose"]}]
    annotation = {"bbox": [8, 0, 16, 80], "area": 1280, "segmentation": runs, "keypoints": [8, 40, 2]}
    data = dataset(annotation, image=size, masks=True, keypoints=True, categories=categories)
    data.at_least = (20, 30)
    item = data[0]
    check_item(item)
    assert item["image"].shape == (20, 30, 3) and item["size"].tolist() == [80, 120]
    assert item["boxes"].tolist() == [[2, 0, 6, 20]] and item["area"].tolist() == [80]
    assert item["keypoints"].tolist() == [[[2, 10, 2]]]
    assert item["masks"][0].any(0).nonzero()[0].tolist() == [2, 3, 4, 5]


def test_a_data_set_goes_to_another_process_with_its_open_file(dataset):
    data = dataset({"segmentation": {"size": [20, 30], "counts": RUNS}}, masks=True)
    first = data[0]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(data))[0]["masks"], first["masks"])


def test_a_box_that_rounding_put_over_the_edge_is_cut_off(dataset):
    assert dataset({"bbox": [19.5, 10, 10.75, 10.5]})[0]["boxes"].tolist() == [[19.5, 10, 30, 20]]


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        ({"bbox": [2, 3, 40, 5]}, "a box exceeds the image\n  found:    annotation 10: x_min, y_min, x_max, "
                                  "y_max = 2, 3, 42, 8\n  expected: a box within 30x20 pixels"),
        ({"bbox": [30, 20, 0.5, 0.5]}, "a box exceeds the image"),
        ({"bbox": [2, 3, 0, 5]}, "a box has no area"),
        ({"bbox": [2, 3, 4, -5]}, "a box has no area"),
        ({"bbox": [2, float("nan"), 4, 5]}, "annotation 10: Expected float, got NaN or Infinity at bbox[1]"),
        ({"category_id": 8}, "annotation 10 is of category 8, which is not in the file"),
        ({"segmentation": {"size": [30, 20], "counts": RUNS}}, "the size of a mask doesn't match the image"),
        ({"segmentation": {"size": [20, 30], "counts": [1, 2]}}, "the run lengths of a mask don't add up to the image"),
        ({"segmentation": {"size": [20, 30], "counts": "T1"}}, "the run lengths of a mask don't add up to the image"),
        ({"segmentation": {"size": [20, 30], "counts": "o"}}, "truncated text"),
        ({"segmentation": [[1, 2, 3, 4]]}, "a polygon has too few points\n  found:    4 numbers"),
        ({"segmentation": []}, "empty segmentation"),
        ({"segmentation": "x"}, "not a segmentation\n  found:    'x'"),
        ({}, "not a segmentation\n  found:    None"),
    ],
)  # fmt: skip
def test_an_annotation_that_cant_be_used_is_named(dataset, refusal, annotation, says):
    text = refusal(lambda: dataset(annotation, masks=True)[0])
    assert says in text and "annotations.json: image 5 (a.png)" in text


@pytest.mark.parametrize(
    ("image", "says"),
    [
        ({"file_name": "/etc/passwd"}, "a file name leads out of the data set's folder\n  found:    '/etc/passwd'"),
        ({"file_name": "../annotations.json"}, "a file name leads out of the data set's folder"),
        ({"file_name": "b.png"}, "no such file\n  found:    in that folder: a.png"),
        ({"height": 21}, "the size of the image doesn't match its annotations\n  found:    "),
    ],
)
def test_an_image_that_cant_be_used_is_named(dataset, refusal, image, says):
    assert says in refusal(lambda: dataset(image=image)[0])


def test_keypoints_must_fit_their_category(dataset, refusal):
    categories = [{"id": 7, "name": "person", "keypoints": ["nose", "tail"]}]
    short = dataset({"keypoints": [1, 2, 2]}, categories=categories, keypoints=True)
    assert "3 values\n  expected: 6 numbers" in refusal(lambda: short[0])
    assert "the annotations have no keypoints" in refusal(lambda: dataset(keypoints=True))


def test_an_annotation_of_no_image_is_refused_or_told_of(dataset, refusal):
    stray = {"image_id": 6}
    assert "an annotation belongs to no image\n  found:    annotation 10 is of image 6" in refusal(
        lambda: dataset(stray)
    )
    heard = []
    data = dataset(stray, {}, opening=Opening(on_problem=heard.append))
    assert len(data[0]["boxes"]) == 1 and len(heard) == 1


def test_a_file_that_changes_under_a_reader_is_noticed(dataset, refusal, tmp_path):
    data = dataset({"segmentation": {"size": [20, 30], "counts": RUNS}}, masks=True)
    with (tmp_path / "annotations.json").open("a") as file:
        file.write(" ")
    assert "the file changed while it was in use" in refusal(lambda: data[0])

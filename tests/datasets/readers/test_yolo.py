"""YOLO's labels: items, class names, pictures without labels, lines that can't be used."""

from __future__ import annotations

import pytest

from trainer.datasets import check_item
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.yolo import YoloDataset, class_names, labels_beside


@pytest.fixture
def dataset(tmp_path, picture, text):
    def make(lines, **options):
        picture("images/train/a.png")
        picture("images/train/b.png", 40, 50)
        text("labels/train/a.txt", lines)
        text("data.yaml", "names: [cat, dog]\n")
        return YoloDataset(tmp_path, images="images/train", **options)

    return make


def test_shares_become_pixels(dataset):
    data = dataset("1 0.5 0.5 0.2 0.5\n\n0 0.1 0.25 0.2 0.5\n")
    item = data[0]
    check_item(item)
    assert [[round(float(edge), 4) for edge in box] for box in item["boxes"]] == [[12, 5, 18, 15], [0, 0, 6, 10]]
    assert item["labels"].tolist() == [1, 0] and data.class_names == ("cat", "dog")


def test_a_picture_without_a_label_file_has_no_boxes(dataset):
    data = dataset("")
    assert len(data) == 2 and data[0]["boxes"].shape == data[1]["boxes"].shape == (0, 4)


def test_of_a_polygon_the_box_is_taken(dataset):
    item = dataset("0 0.1 0.1 0.5 0.2 0.3 0.9\n")[0]
    assert [round(float(edge), 4) for edge in item["boxes"][0]] == [3, 2, 15, 18]


@pytest.mark.parametrize(
    ("images", "labels"),
    [("images/train", "labels/train"), ("train/images", "train/labels"), ("images", "labels"), ("train", "labels")],
)
def test_labels_lie_where_yolo_puts_them(images, labels):
    assert labels_beside(images) == labels


def test_names_come_from_a_list_a_yaml_file_or_lines(tmp_path, text, refusal):
    text("a.yaml", "names:\n  0: cat\n  1: dog\n")
    text("b.txt", "cat\ndog\n\n")
    text("c.yaml", "classes: [cat]\n")
    for classes in (("cat", "dog"), "a.yaml", "b.txt"):
        assert class_names(tmp_path, classes) == ("cat", "dog")
    assert "the file has no list of class names" in refusal(lambda: class_names(tmp_path, "c.yaml"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("0 0.5 0.5 0.2", "a.txt:2: not a line of YOLO labels\n  found:    0 0.5 0.5 0.2"),
        ("0.5 0.5 0.5 0.2 0.2", "not a line of YOLO labels"),
        ("cat 0.5 0.5 0.2 0.2", "not a line of YOLO labels"),
        ("nan 0.5 0.5 0.2 0.2", "not a line of YOLO labels"),
        ("2 0.5 0.5 0.2 0.2", "a class has no name\n  found:    class 2\n  expected: 0 to 1 (cat, dog)"),
        ("1 12 5 18 15", "a box exceeds the image\n  found:    box 1"),
        ("1 0.5 0.5 0 0.2", "a box has no area"),
        ("1 0.5 nan 0.1 0.2", "a box's coordinates are not finite"),
    ],
)
def test_a_line_that_cant_be_used_is_named(dataset, refusal, line, says):
    data = dataset(f"0 0.5 0.5 0.2 0.2\n{line}\n")
    assert says in refusal(lambda: data[0])


def test_labels_of_no_picture_are_told_of(dataset, text, refusal):
    text("labels/train/c.txt", "")
    assert "c.txt: a label file without an image" in refusal(lambda: dataset(""))
    heard = []
    assert len(dataset("", opening=Opening(on_problem=heard.append))) == 2 and len(heard) == 1

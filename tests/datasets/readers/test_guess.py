"""Folders and files without a config: the format is told by the names of what lies in them."""

from __future__ import annotations

import pytest

from trainer.datasets.readers.guess import guess, read_guessed

COCO = {
    "images": [{"id": 1, "file_name": "1.png"}],
    "categories": [{"id": 1, "name": "cat"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "segmentation": [[1, 2, 9, 2, 9, 9]]}
    ],
}
XML = "<annotation><filename>1.png</filename></annotation>"

FOLDERS = {
    "coco": ({"instances_val.json": COCO, "val/1.png": None}, {"instances_val": "coco"}),
    "coco in annotations": ({"annotations/a_train.json": COCO, "images/train/1.png": None,
                             "annotations/b.json": {"x": 1}}, {"a_train": "coco"}),
    "voc": ({"Annotations/1.xml": XML, "JPEGImages/1.png": None}, {"all": "voc"}),
    "yolo": ({"data.yaml": "names: [a]", "images/1.png": None, "labels/1.txt": ""}, {"all": "yolo"}),
    "yolo with splits": ({"data.yaml": "names: [a]", "train/images/1.png": None, "train/labels/1.txt": "",
                          "images/val/2.png": None, "labels/val/2.txt": ""}, {"val": "yolo", "train": "yolo"}),
    "masks": ({"images/1.png": None, "masks/1.png": None}, {"all": "segmentation"}),
    "masks with splits": ({"images/train/1.png": None, "masks/train/1.png": None}, {"train": "segmentation"}),
    "classes": ({"cat/1.png": None, "dog/1.png": None}, {"all": "image_folder"}),
    "classes with splits": ({"train/cat/1.png": None, "val/cat/1.png": None},
                            {"train": "image_folder", "val": "image_folder"}),
    "pairs": ({"train/1.png": None, "test/1.png": None}, {"train": "pairs", "test": "pairs"}),
    "texts": ({"a.txt": "one\n", "b.txt": "two\n"}, {"all": "text_classes"}),
    "text": ({"input.txt": "to be or not to be " * 20}, {"all": "text"}),
    "tables": ({"train.csv": "a\n1\n", "val.jsonl": '{"a": 1}\n'}, {"train": "table", "val": "table"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_read_in_the_format_that_it_looks_like(tmp_path, picture, text, name):
    files, expected = FOLDERS[name]
    for file, content in files.items():
        if content is None:
            picture(file)
        else:
            text(file, content)
    assert {split: section.name for split, (section, _) in guess(tmp_path).items()} == expected
    if "masks" not in name:  # noise is no mask
        for dataset in read_guessed(tmp_path).values():
            assert len(dataset) > 0 and dataset[0]


def test_annotations_are_read_with_all_that_they_have(tmp_path, picture, text):
    picture("1.png")
    dataset = read_guessed(text("instances.json", COCO))["all"]
    assert dataset[0]["masks"].any()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", COCO, "where the images of the annotations lie can't be told\n  found:    no 1.png in"),
        ("a.json", "{", "the JSON is cut short"),
        ("a.json", {"x": 1}, "the JSON is not of the expected form"),
        ("a.bin", "x", "which format this is can't be told"),
    ],
)
def test_a_file_that_cant_be_read_says_why(tmp_path, text, refusal, name, content, says):
    assert says in refusal(lambda: guess(text(name, content)))


def test_real_folders_are_known(shared_data):
    formats = {
        "bccd": "coco", "nuclei": "coco", "coco_subset": "coco", "aerial": "segmentation", "aerial_pairs": "pairs",
        "clothing": "image_folder", "mnist_10k": "idx", "names": "text_classes", "shakespeare": "text",
    }  # fmt: skip
    found = {name: {section.name for section, _ in guess(shared_data / name).values()} for name in formats}
    assert found == {name: {form} for name, form in formats.items()}

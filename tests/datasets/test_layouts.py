"""Layouts of folders: detected once, read alike by inspection and training, and never guessed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.datasets.layout_folders import (
    LAYOUTS,
    coco_file,
    image,
    label_img,
    mask,
    text,
    xml,
    yolo_line,
    yolo_ultralytics,
)
from trainer import TrainerError
from trainer.cli import main
from trainer.configs import config_from
from trainer.datasets.layouts import detect
from trainer.datasets.layouts.detect import detect_path
from trainer.datasets.readers import read_detected, read_splits


def splits_of(root: Path, **reader: object) -> dict[str, object]:
    """What training reads of a folder."""
    data = {"root": str(root), "reader": {"name": "auto", **reader}}
    config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}}).data
    return dict(read_splits(config.reader, config.root))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(TrainerError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_the_same_where_it_is_inspected_and_where_it_is_trained_on(tmp_path, name, capsys):
    write, reader, counts = LAYOUTS[name]
    write(tmp_path)
    layout = detect(tmp_path)
    assert layout.reader == reader and {split: part.items for split, part in layout.splits.items()} == counts

    training, inspected = splits_of(tmp_path), read_detected(tmp_path)[1]
    assert {split: len(part) for split, part in training.items()} == counts
    assert [list(training), [part.class_names for part in training.values()]] == [
        list(inspected), [part.class_names for part in inspected.values()]
    ]  # fmt: skip
    for split, part in training.items():
        for index in range(len(part)):
            item, other = part[index], inspected[split][index]
            assert part.source(index) == inspected[split].source(index) and set(item) <= set(other)
            for field in item:
                np.testing.assert_array_equal(item[field], other[field])

    assert main(["data", "inspect", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert layout.line() in err
    assert {split: part["items"] for split, part in json.loads(out).items()} == counts


@pytest.mark.parametrize("name", ["coco", "yolo_ultralytics", "yolo_darknet", "voc", "label_img"])
def test_boxes_are_where_the_files_say(tmp_path, name):
    LAYOUTS[name][0](tmp_path)
    for part in splits_of(tmp_path).values():
        np.testing.assert_allclose(part[0]["boxes"], [[8, 6, 24, 18]], atol=1e-3)
        assert part.class_names == ("thing",)


@pytest.mark.parametrize("name", ["mask_folders", "mask_suffix"])
def test_masks_are_not_images(tmp_path, name):
    LAYOUTS[name][0](tmp_path)
    part = splits_of(tmp_path)["train"]
    assert not any("mask." in part.source(index).lower() for index in range(len(part)))
    assert len(part.class_names) == 2 and part[0]["mask"][7, 9] == 1 and part[0]["mask"][0, 0] == 0


def test_validation_images_of_yolo_are_not_trained_on(tmp_path):
    yolo_ultralytics(tmp_path)
    config = config_from(
        {"data": {"root": str(tmp_path), "reader": {"name": "yolo"}}, "optimizer": {"name": "sgd"},
         "train": {"steps": 1}}
    ).data  # fmt: skip
    says = refusal(lambda: read_splits(config.reader, config.root))
    assert "the folder contains several splits, which would be read as one" in says and "train, val" in says
    assert "`images/{split}`" in says


def test_a_width_says_nothing_about_pairs(tmp_path):
    for number in range(4):
        image(tmp_path / f"train/{number}.png", number, (32, 64))
        image(tmp_path / f"val/{number}.png", 10 + number, (32, 64))
    says = refusal(lambda: detect(tmp_path))
    assert "unknown data format" in says and "{name: pairs}" in says and "8 images" in says
    assert detect(tmp_path, "pairs").line() == "pairs side by side: train 4, valid 4", "where it is asked for"


def test_labels_of_yolo_need_names_of_classes(tmp_path):
    yolo_ultralytics(tmp_path)
    (tmp_path / "data.yaml").unlink()
    says = refusal(lambda: detect(tmp_path))
    assert "the classes of the YOLO labels have no names" in says and "classes.txt" in says


def test_copies_of_macos_in_an_archive_are_no_data(tmp_path):
    LAYOUTS["class_folders"][0](tmp_path)
    text(tmp_path / "__MACOSX/cat/._train0.png", "x")
    assert detect(tmp_path).splits["train"].items == 6 and splits_of(tmp_path)["train"].class_names == ("cat", "dog")


def test_a_flat_folder_of_images_is_no_text(tmp_path):
    for number in range(3):
        image(tmp_path / f"{number}.png", number)
    text(tmp_path / "README.txt", "one\ntwo\n")
    text(tmp_path / "notes.txt", "one\ntwo\n")
    assert "3 images in total" in refusal(lambda: detect(tmp_path))


def test_a_folder_of_two_layouts_is_an_error_with_both_and_a_choice(tmp_path):
    label_img(tmp_path)
    text(tmp_path / "instances.json", coco_file(["train0.png"]))
    says = refusal(lambda: detect(tmp_path))
    assert "the folder matches several formats" in says and "coco (" in says and "voc (" in says
    assert "`data.reader.format=coco`" in says and "--from coco" in says
    assert detect(tmp_path, "voc").reader == "voc" and len(splits_of(tmp_path, format="coco")["train"]) == 1
    assert main(["data", "inspect", str(tmp_path), "--from", "voc"]) == 0


def test_a_class_without_images_is_named(tmp_path):
    LAYOUTS["class_folders"][0](tmp_path)
    (tmp_path / "emu").mkdir()
    says = refusal(lambda: splits_of(tmp_path))
    assert "emu: no files of this kind in the folder" in says


def test_files_of_other_kinds_are_counted_and_named(tmp_path, capsys):
    LAYOUTS["class_folders"][0](tmp_path)
    for number in range(2):
        text(tmp_path / f"dog/{number}.heic", "x")
    assert "not read: 2 .heic (dog/0.heic), 1 .db (cat/Thumbs.db)" in detect(tmp_path).line()
    splits_of(tmp_path, name="image_folder")
    assert f"{tmp_path}: 2 .heic files are not read, for instance dog/0.heic" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"data.yaml": "train: images\nval: images\nnames: [a]", "images/1.png": None, "labels/1.txt": ""},
         "two splits have the same images"),
        ({"data.yaml": "train: images/train\nval: images/val\nnames: [a]", "images/train/1.png": None,
          "labels/train/1.txt": ""}, "data.yaml names a folder that doesn't exist"),
        ({"data.yaml": "names: [a\nx: {", "images/1.png": None}, "data.yaml:2: invalid YAML"),
        ({"annotations/a.json": coco_file(["1.png"]), "annotations/b.json": coco_file(["1.png"]), "1.png": None},
         "several COCO files whose names don't contain their split"),
        ({"annotations/train.json": '{"images": [', "1.png": None}, "train.json:1: truncated JSON"),
        ({"annotations/train.json": '{"images": [],\n"annotations": 1.x}', "1.png": None},
         "train.json:2: not a JSON file"),
        ({"annotations/train.json": coco_file(["2.png"]), "1.png": None},
         "the annotated images are not in the folder"),
        ({"1.png": None, "labels.csv": "file,size,weight\n1.png,2,3\n"}, "the label column of the table is ambiguous"),
        ({"1.png": None, "labels.csv": "file,label,split\n1.png,a,train\n1.png,a,maybe\n"},
         "labels.csv:3: a value in the split column is not a split"),
        ({"a.csv": "x\n1\n", "b.csv": "x\n1\n"}, "several tables"),
        ({"1.png": None, "1.xml": xml("1.png"), "train/2.png": None, "train/2.xml": xml("2.png")},
         "annotated images both in the folder and in its split folders"),
        ({"train/cat/1.png": None, "Training/cat/2.png": None}, "two folders for one split"),
        ({"train/cat/1.png": None, "train/2.png": None}, "images outside of the class folders"),
        ({}, "unknown data format"),
    ],
)  # fmt: skip
def test_a_folder_that_contradicts_itself_is_refused(tmp_path, files, says):
    for number, (file, content) in enumerate(files.items()):
        if content is None:
            image(tmp_path / file, number)
        else:
            text(tmp_path / file, content)
    assert says in refusal(lambda: detect(tmp_path))


def test_colors_need_a_table_and_255_a_meaning(tmp_path):
    image(tmp_path / "images/1.png", 0)
    mask(tmp_path / "masks/1.png", mode="RGB")
    assert "a table of class colors" in refusal(lambda: detect(tmp_path))
    mask(tmp_path / "masks/1.png")
    Image.fromarray(np.repeat([[0, 255]], 16, 0).repeat(20, 1).astype(np.uint8)).save(tmp_path / "masks/1.png")
    says = refusal(lambda: splits_of(tmp_path))
    assert "the values of the masks are not class indices" in says and "values 0, 255" in says


def test_a_table_is_divided_by_its_column_of_splits(tmp_path):
    rows = ["train", "Train", "val", "validation", "train"]
    lines = [f"{number}.png,{'ab'[number % 2]},{word}\n" for number, word in enumerate(rows)]
    text(tmp_path / "labels.csv", "file,label,Split\n" + "".join(lines) + "5.png,a\n")
    for number in range(6):
        image(tmp_path / f"photos/{number}.png", number)
    assert detect(tmp_path).line() == "images with a table of labels: train 4, valid 2"
    named = {"name": "table", "file": "labels.csv", "image": "file", "images": "photos", "label": "label"}
    for reader in ({}, {**named, "split_column": "Split"},
                   {**named, "split_column": "Split", "splits": {"train": "train", "valid": "val"}}):  # fmt: skip
        found = splits_of(tmp_path, **reader)
        assert [Path(found["valid"].image_path(row)).name for row in range(2)] == ["2.png", "3.png"]
        assert len(found["train"]) == 4 and found["train"][0]["label"] == 0
        assert "the number of fields" in refusal(lambda found=found: found["train"][3])
    assert "no such column" in refusal(lambda: splits_of(tmp_path, **named, split_column="part"))
    text(tmp_path / "numbers/data.csv", "x,y,set\n1,2,train\n3,4,test\n")
    numbers = splits_of(tmp_path / "numbers")
    assert list(numbers) == ["train", "test"] and numbers["test"][0]["features"].tolist() == [3, 4]


def test_one_image_in_two_splits_is_an_error(tmp_path):
    LAYOUTS["yolo_darknet"][0](tmp_path)
    text(tmp_path / "valid.txt", "obj/train0.png\n")
    assert "one image is in two splits" in refusal(lambda: splits_of(tmp_path))


def test_the_same_content_in_two_splits_is_a_warning(tmp_path, capsys):
    LAYOUTS["class_folders_with_splits"][0](tmp_path)
    splits_of(tmp_path)
    assert capsys.readouterr().err == ""
    (tmp_path / "Val/cat/again.png").write_bytes((tmp_path / "Train/cat/train0.png").read_bytes())
    splits_of(tmp_path)
    says = capsys.readouterr().err
    assert "warning: 1 files are identical in two splits" in says and "train0.png (train)" in says


def test_two_splits_of_other_classes_are_an_error(tmp_path):
    LAYOUTS["coco"][0](tmp_path)
    other = coco_file(["val0.png", "val1.png"])
    text(tmp_path / "annotations/instances_val2017.json", {**other, "categories": [{"id": 1, "name": "other"}]})
    assert "two splits have different classes" in refusal(lambda: splits_of(tmp_path))


@pytest.mark.parametrize("name", [name for name, (_, _, counts) in LAYOUTS.items() if len(counts) == 1])
def test_a_validation_split_is_taken_from_a_folder_without_one(tmp_path, name):
    LAYOUTS[name][0](tmp_path)
    found = splits_of(tmp_path, fractions={"valid": 0.34})
    assert {split: len(part) for split, part in found.items()} == {"train": 4, "valid": 2}


def test_a_file_is_read_by_itself(tmp_path):
    LAYOUTS["coco"][0](tmp_path)
    layout, root = detect_path(tmp_path / "annotations/instances_val2017.json")
    assert root == tmp_path and layout.splits["valid"].settings["images"] == "val2017"
    with pytest.raises(TrainerError, match="is not in the format yolo"):
        detect_path(tmp_path / "annotations/instances_val2017.json", "yolo")


def test_other_formats_are_known(tmp_path):
    for name in ("a", "b"):
        text(tmp_path / f"names/{name}.txt", "one\ntwo\n")
    text(tmp_path / "text/input.txt", "to be or not to be " * 20)
    text(tmp_path / "tables/train.csv", "a\n1\n")
    text(tmp_path / "tables/val.jsonl", '{"a": 1}\n')
    text(tmp_path / "yolo/classes.txt", "thing\n")
    image(tmp_path / "yolo/1.png", 0)
    text(tmp_path / "yolo/1.txt", yolo_line())
    found = {name: detect(tmp_path / name) for name in ("names", "text", "tables", "yolo")}
    assert {name: layout.reader for name, layout in found.items()} == {
        "names": "text_classes", "text": "text", "tables": "table", "yolo": "yolo"
    }  # fmt: skip
    assert list(found["tables"].splits) == ["train", "valid"]


def test_annotations_are_inspected_with_all_that_they_have(tmp_path):
    content = coco_file(["1.png"])
    content["annotations"][0]["segmentation"] = [[8, 6, 24, 6, 24, 18]]
    text(tmp_path / "instances.json", content)
    image(tmp_path / "1.png", 0)
    assert read_detected(tmp_path / "instances.json")[1]["train"][0]["masks"].any()


def test_real_folders_are_known(shared_data):
    formats = {
        "bccd": "coco", "coco_subset": "coco", "aerial": "segmentation", "aerial_pairs": "pairs",
        "clothing": "image_folder", "mnist_10k": "idx", "names": "text_classes", "shakespeare": "text",
    }  # fmt: skip
    assert {name: detect(shared_data / name).reader for name in formats} == formats
    assert "coco (" in refusal(lambda: detect(shared_data / "nuclei"))
    assert detect(shared_data / "nuclei", "coco").splits["test"].settings["images"] == "images/test"

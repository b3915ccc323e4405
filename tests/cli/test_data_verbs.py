"""`trainer data inspect` and `trainer data convert` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.datasets.layout_folders import yolo_ultralytics
from trainer.cli import main
from trainer.datasets.layouts import detect


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A COCO data set of three images: the second box of one lies outside, one image is cut short."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cells"
    (folder / "images").mkdir(parents=True)
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 30, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
    file = folder / "images" / "2.png"
    file.write_bytes(file.read_bytes()[:700])
    images = [{"id": n, "file_name": f"{n}.png", "height": 20, "width": 30} for n in range(3)]
    boxes = [(0, [1, 2, 3, 4]), (1, [1, 2, 3, 4]), (1, [20, 10, 300, 4])]
    annotations = [{"id": n, "image_id": i, "category_id": 1, "bbox": box} for n, (i, box) in enumerate(boxes)]
    content = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cell"}]}
    (folder / "instances.json").write_text(json.dumps(content))
    return folder


def test_an_inspection_tells_what_is_there_and_what_is_wrong(cells, capsys):
    assert main(["data", "inspect", "cells"]) == 2
    text = capsys.readouterr().out
    assert "train: 3 items, 2 can't be used" in text and "30x20 1" in text
    assert "cell" in text and "a box exceeds the image" in text and "2.png: truncated image" in text
    assert "found:    annotation 2: x_min, y_min, x_max, y_max = 20, 10, 320, 14" in text


def test_an_inspection_as_json_lists_every_bad_item(cells, capsys):
    assert main(["data", "inspect", "cells/instances.json", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)["train"]
    assert found["items"] == 3 and len(found["bad"]) == 2 and found["classes"] == {"boxes": {"cell": 1}}


def test_a_contact_sheet_shows_items_and_reasons(cells, capsys):
    assert main(["data", "inspect", "cells", "--contact-sheet", "sheet.png"]) == 2
    assert "sheet.png: 3 items of train, 2 of which can't be used" in capsys.readouterr().err
    assert Image.open("sheet.png").width > 700
    for number in range(2):
        (cells / "images" / f"{number}.png").write_bytes(b"")
    assert main(["data", "inspect", "cells", "--contact-sheet", "sheet.png", "--pictures", "2"]) == 2
    assert "sheet.png: 2 items of train, 2 of which can't be used" in capsys.readouterr().err
    assert main(["data", "inspect", "cells", "--contact-sheet", "nowhere/sheet.png"]) == 2
    assert "nowhere/sheet.png" in capsys.readouterr().err


def test_a_config_is_inspected_as_training_reads_it(cells, capsys):
    reader = "{name: coco, annotations: instances.json, fractions: {valid: 0.34}}"
    Path("config.yaml").write_text(f"extends: digits\ntask: digits\ndata: {{root: cells, reader: {reader}}}\n")
    assert main(["data", "inspect", "config.yaml", "--json", "data.reader.channels=1"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert {name: part["items"] for name, part in found.items()} == {"train": 2, "valid": 1}
    assert any(part["fields"].get("image") == "uint8 [20, 30, 1]" for part in found.values())


def test_a_recipe_with_data_of_its_own_is_inspected(capsys):
    assert main(["data", "inspect", "digits", "--split", "valid", "--items", "10"]) == 0
    assert "valid: 500 items (10 inspected), 0 can't be used" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cells", "--split", "valid"], "no such split\n  found:    valid\n  expected: train"),
        (["cells", "--items", "0"], "--items and --pictures must be positive"),
        (["cells", "data.batch_size=3"], "key=value applies to a config, not to a folder"),
        (["."], "unknown data format"),
        (["nowhere"], "nowhere"),
        (["cells/images/0.png"], "unknown data format"),
    ],
)
def test_mistakes_of_inspecting_are_told(cells, capsys, words, says):
    assert main(["data", "inspect", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_conversion_says_what_it_did_and_what_it_left(cells, capsys):
    words = ["data", "convert", "--to", "voc", "cells/instances.json", "voc"]
    assert main(words) == 2
    assert "a box exceeds the image" in capsys.readouterr().err
    assert main(["data", "convert", "--to", "yolo", "cells", "yolo", "--on-error", "skip"]) == 0
    out, err = capsys.readouterr()
    assert out == "yolo: 2 images with 1 boxes of 1 classes\n  1 images were skipped\n"
    assert "skipped: " in err and "image 1 (1.png)" in err
    assert main(["data", "convert", "--from", "yolo", "--to", "coco", "yolo", "coco"]) == 0
    content = json.loads(Path("coco/annotations.json").read_text())
    assert [one["bbox"] for one in content["annotations"]] == [[1, 2, 3, 4]]


@pytest.mark.parametrize(("to", "reader"), [("yolo", "yolo"), ("coco", "coco"), ("voc", "voc")])
def test_splits_stay_apart(tmp_path, monkeypatch, to, reader):
    monkeypatch.chdir(tmp_path)
    yolo_ultralytics(tmp_path / "source")
    assert main(["data", "convert", "--to", to, "source", "target"]) == 0
    layout = detect(tmp_path / "target")
    assert layout.reader == reader and {name: part.items for name, part in layout.splits.items()} == {
        "train": 4, "valid": 2
    }  # fmt: skip
    if to == "yolo":
        assert "train: images/train\nval: images/val\n" in Path("target/data.yaml").read_text()


def test_a_validation_split_alone_stays_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yolo_ultralytics(tmp_path / "source")
    assert main(["data", "convert", "--to", "yolo", "source", "target", "--split", "valid"]) == 0
    assert "val: images/val" in Path("target/data.yaml").read_text()
    assert {name: part.items for name, part in detect(tmp_path / "target").splits.items()} == {"valid": 2}


def test_a_config_is_inspected_in_the_layout_that_training_detects(tmp_path, capsys):
    yolo_ultralytics(tmp_path)
    assert main(["data", "inspect", "detection", f"data.root={tmp_path}"]) == 0
    assert f"{tmp_path}: YOLO (Ultralytics): train 4, valid 2" in capsys.readouterr().err


def test_images_may_lie_elsewhere(cells, capsys):
    Path("elsewhere").mkdir()
    (cells / "images").rename("elsewhere/pictures")
    words = ["data", "convert", "--to", "voc", "cells/instances.json", "voc", "--on-error", "skip"]
    assert main(words) == 2
    assert "the annotated images are not in the folder" in capsys.readouterr().err
    assert main([*words, "--images-in", "elsewhere/pictures"]) == 0
    assert Path("voc/Annotations/0.xml").is_file() and Path("voc/JPEGImages/0.png").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--to", "voc", "--from", "yolo", "cells", "x"],
            "a folder that is not in the format yolo",
        ),
        (["--to", "voc", "cells", "nowhere/x"], "nowhere/x"),
        (["--to", "voc", "cells", "cells"], "the folder is not empty"),
        (["--to", "voc", "cells", "x", "--split", "valid"], "no such split"),
        (["--to", "voc", "cells", "x", "--images-in", "cells"], "--images-in applies to a COCO file only"),
        (["cells", "x"], "the following arguments are required: --to"),
    ],
)
def test_mistakes_of_converting_are_told(cells, capsys, words, says):
    assert main(["data", "convert", *words]) == 2
    assert says in capsys.readouterr().err

"""`trainer check`: what a config names outside of itself, all problems in one pass, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import PIL.Image
import pytest

from tests.datasets.layout_folders import LAYOUTS, image
from trainer.cli import main
from trainer.configs import RecipeIndex, config_from
from trainer.datasets.readers.reading import read_splits, sections


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_all_problems_come_in_one_pass_whatever_they_are_about(tmp_path: Path, capsys) -> None:
    (tmp_path / "config.yaml").write_text(
        "extends: pix2pix\noptimizer: {name: adam}\ndata:\n  root: photo\n  batch_sise: 3\n"
        "model: {weights: best.pt}\nmetrics: {valid: [coco]}\nhooks: [{name: './mine.py:Mine'}]\n"
    )
    (tmp_path / "photos").mkdir()
    assert main(["check", "config.yaml"]) == 2
    text = capsys.readouterr().err
    heads = [line for line in text.removeprefix("error: ").splitlines() if not line.startswith("  ")]
    assert [head.split(": ")[0] for head in heads] == [
        "config.yaml:2:12 optimizer", "config.yaml:4:9 data.root", "config.yaml:5:3 data.batch_sise",
        "config.yaml:6:18 model.weights", "config.yaml:7:19 metrics.valid[0]", "config.yaml:8:16 hooks[0].name",
    ]  # fmt: skip
    assert f"in {tmp_path}: config.yaml, photos, did you mean 'photos'?" in text


def test_json_has_every_part_of_a_problem_and_the_data(tmp_path: Path, capsys) -> None:
    LAYOUTS["voc"][0](tmp_path / "voc")
    assert main(["check", "detection", "data.root=voc", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["problems"], found["data"]) == (
        True, [], {"layout": "Pascal VOC", "splits": {"train": 4, "valid": 2}},
    )  # fmt: skip
    assert main(["check", "detection", "data.root=voc", "train.epochs=0", "model.weights=none.pt", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"] and found["problems"][0] == {
        "where": "<cli> train.epochs", "message": "expected a number above 0, found 0", "found": "0",
        "expected": "a number above 0", "hint": None,
    }  # fmt: skip
    assert found["problems"][1]["where"] == "<cli> model.weights" and len(found["problems"]) == 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_section_knows_the_fields_of_its_items(layout: str, tmp_path: Path) -> None:
    LAYOUTS[layout][0](tmp_path)
    data = {"root": str(tmp_path), "reader": {"name": "auto"}}
    if layout == "pairs_side_by_side":
        data["reader"]["format"] = "pairs"
    reader = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}}).data.reader
    item = read_splits(reader, tmp_path)["train"][0]
    for section, _ in sections(reader, tmp_path).values():
        assert set(section.fields()) <= set(item)


def test_a_run_is_refused_as_the_check_is_and_leaves_nothing(tmp_path: Path, capsys) -> None:
    LAYOUTS["class_folders_with_splits"][0](tmp_path / "pets")
    for verb in (["check"], ["run", "--in-process", "--plain"]):
        assert main([*verb, "detection", "data.root=pets"]) == 2
        text = capsys.readouterr().err
        assert (
            "<cli> data.root: detection needs boxes, labels, image_id, placement, which this data doesn't have" in text
        )
        assert "class folders with splits, whose items have image, label, size" in text
        assert "Use the recipe clothes, digits or vit for this data." in text
    assert not (tmp_path / "runs").exists()


def test_a_recipe_of_the_right_task_is_only_named_where_there_is_one(tmp_path: Path, capsys) -> None:
    (tmp_path / "table.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    assert main(["check", "clothes", "data.root=.", "data.reader={name: table, file: table.csv, label: label}"]) == 2
    text = capsys.readouterr().err
    assert "clothes needs image, which this data doesn't have" in text
    assert "Set data.root to a folder whose items have these fields." in text


def test_weights_may_be_a_file_or_a_run_that_has_a_checkpoint(tmp_path: Path, capsys) -> None:
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    assert main(["check", "digits", "model.weights=run"]) == 0
    assert main(["check", "digits", "model.weights=empty", "model.parts.network.weights=gone"]) == 2
    text = capsys.readouterr().err
    assert (
        f"<cli> model.weights: the folder {tmp_path / 'empty'} holds no checkpoint\n  found:    an empty folder" in text
    )
    assert f"<cli> model.parts.network.weights: no such file: {tmp_path / 'gone'}" in text


def test_a_batch_larger_than_the_split_is_said(tmp_path: Path, capsys) -> None:
    LAYOUTS["class_folders_with_splits"][0](tmp_path / "pets")
    assert main(["check", "clothes", "data.root=pets"]) == 0
    assert "warning: data.batch_size: a batch of 32 is larger than the 4 items of train" in capsys.readouterr().out


def test_paths_of_a_reader_that_is_named_are_looked_for_in_every_split(tmp_path: Path, capsys) -> None:
    image(tmp_path / "photos/train/cat/1.png", 1)
    words = [
        "data.root=photos",
        "data.reader={name: image_folder, images: '{split}', splits: {train: train, valid: vall}}",
    ]
    assert main(["check", "clothes", *words]) == 2
    assert f"data.reader.images: no such file or folder: {tmp_path / 'photos/vall'}" in capsys.readouterr().err


def checked(capsys, *words: str) -> tuple[int, dict]:
    code = main(["check", *words, "--data", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_every_item_is_read_with_data(tmp_path: Path, capsys) -> None:
    LAYOUTS["yolo_ultralytics"][0](tmp_path / "cells")
    assert main(["check", "detection", "data.root=cells", "--data", "--contact-sheet", "sheet.png"]) == 0
    out = capsys.readouterr().out
    assert "train: 4 items, 0 can't be used" in out and "thing          4  100.0%" in out and "rotated by EXIF" in out
    assert "not checked: the task's code" in out and "not checked: its data" not in out
    assert (tmp_path / "sheet.png").is_file()


def test_a_bad_item_is_a_problem_and_a_warning_where_it_is_skipped(tmp_path: Path, capsys) -> None:
    LAYOUTS["yolo_ultralytics"][0](tmp_path / "cells")
    (tmp_path / "cells/images/train/train2.png").write_text("junk")
    (tmp_path / "cells/labels/val/val0.txt").write_text("0 0.5 0.5 1.5 0.2\n")
    code, found = checked(capsys, "detection", "data.root=cells")
    train, valid = found["problems"]
    assert code == 2 and not found["ok"] and train["where"] == "<cli> data.root"
    assert train["message"].startswith("train: 1 of 4 items can't be used: not an image")
    assert str(tmp_path / "cells/images/train/train2.png") in train["found"]
    assert valid["message"] == "valid: 1 of 2 items can't be used: a box exceeds the image"
    assert [len(found["data"]["items"][split]["bad"]) for split in ("train", "valid")] == [1, 1]
    code, found = checked(capsys, "detection", "data.root=cells", "data.on_error=skip")
    assert code == 0 and found["ok"] and len([text for text in found["warnings"] if "can't be used" in text]) == 2


def test_the_same_content_in_two_splits_is_an_error_and_in_one_a_warning(tmp_path: Path, capsys) -> None:
    LAYOUTS["class_folders"][0](tmp_path / "pets")
    images = sorted((tmp_path / "pets").rglob("*.png"))
    for copy in images[1:]:
        copy.write_bytes(images[0].read_bytes())
    words = ("clothes", "data.root=pets", "data.reader.fractions={valid: 0.34}")
    code, found = checked(capsys, *words)
    messages = [problem["message"] for problem in found["problems"]]
    assert code == 2 and any("images are both in train and in valid" in text or "in valid and in train" in text
                             for text in messages)  # fmt: skip
    assert any("are duplicates within the split" in text for text in found["warnings"])
    assert str(images[0]) in found["problems"][0]["found"]


def test_images_that_exif_turns_and_classes_without_examples_are_counted(tmp_path: Path, capsys) -> None:
    LAYOUTS["class_folders_with_splits"][0](tmp_path / "pets")
    turned = PIL.Image.new("RGB", (8, 4))
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "pets/Train/cat/turned.jpg", exif=exif)
    (tmp_path / "pets/Train/cow").mkdir()
    image(tmp_path / "pets/Train/cow/1.png", 77)
    (tmp_path / "pets/Val/cow").mkdir()
    image(tmp_path / "pets/Val/cow/1.png", 78)
    (tmp_path / "pets/Val/cat/val0.png").unlink()
    image(tmp_path / "pets/Val/cow/2.png", 79)
    (tmp_path / "pets/Val/cat").rmdir()
    code, found = checked(capsys, "clothes", "data.root=pets")
    assert found["data"]["items"]["train"]["files"] == {"images": 6, "rotated by EXIF": 1, "duplicates": 0}
    assert "valid: 1 classes have no example: cat" in found["warnings"] and code == 0


def test_data_that_only_task_code_reads_is_left_to_inspect(tmp_path: Path, capsys) -> None:
    root = RecipeIndex.built_in().folder("segmentation") / "data"
    reader = "{name: pairs, images: '{split}'}"
    (tmp_path / "config.yaml").write_text(f"extends: pix2pix\ndata: {{root: {root}, reader: {reader}}}\n")
    assert main(["check", "config.yaml"]) == 0
    assert "not checked: its data" in capsys.readouterr().out
    assert main(["check", "pix2pix", "--data"]) == 2
    assert "the task creates its data itself, and this command runs no task code" in capsys.readouterr().err
    assert main(["check", "digits", "--contact-sheet", "sheet.png"]) == 2
    assert "Add --data." in capsys.readouterr().err


@pytest.mark.parametrize("recipe", RecipeIndex.built_in().names())
def test_every_recipe_is_good_with_its_own_data(recipe: str, capsys) -> None:
    assert main(["check", recipe, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]


def test_splits_that_a_task_needs_are_there(tmp_path: Path, capsys) -> None:
    LAYOUTS["class_folders"][0](tmp_path / "pets")
    (tmp_path / "options.py").write_text(
        "from trainer.configs import Declaration\nDECLARATION = Declaration(splits=('train', 'valid'))\n"
    )
    (tmp_path / "task.py").write_text("class Mine: pass\n")
    (tmp_path / "config.yaml").write_text(
        "task: ./task.py:Mine\ndata: {root: pets, reader: {name: auto}}\noptimizer: {name: sgd}\ntrain: {steps: 1}\n"
    )
    assert main(["check", "config.yaml"]) == 2
    text = capsys.readouterr().err
    assert (
        "config.yaml:2:14 data.root: the task needs a split valid, which doesn't exist\n  found:    train: 6 items"
        in text
    )
    assert "`data.reader.fractions={valid: 0.1}` takes a tenth of train." in text
    assert main(["check", "config.yaml", "data.reader.fractions={valid: 0.34}"]) == 0
    assert "train 4, valid 2" in capsys.readouterr().out

"""Likely mistakes of new users: each ends `trainer check` with exit code 2 and a message that says what to change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tests.datasets.layout_folders import LAYOUTS, image
from trainer.cli import main

Prepare = Callable[[Path], None]


def config(text: str) -> Prepare:
    """Writes `config.yaml`."""

    def write(folder: Path) -> None:
        (folder / "config.yaml").write_text(text)

    return write


def layout(name: str) -> Prepare:
    """Writes a data set of this layout into `mine`."""
    return lambda folder: LAYOUTS[name][0](folder / "mine")


def nothing(folder: Path) -> None:
    """Needs no files."""


def circle(folder: Path) -> None:
    (folder / "a.yaml").write_text("extends: b.yaml\n")
    (folder / "b.yaml").write_text("extends: a.yaml\n")


def folder_without_images(folder: Path) -> None:
    for name in ("cat", "dog"):
        (folder / "mine/train" / name).mkdir(parents=True)


def masks_of_another_size(folder: Path) -> None:
    LAYOUTS["mask_folders"][0](folder / "mine")
    (mask,) = [path for path in (folder / "mine").rglob("*train0*") if "mask" in str(path).lower()]
    Image.new("RGB", (7, 5)).save(mask)


def other_classes_in_valid(folder: Path) -> None:
    LAYOUTS["class_folders_with_splits"][0](folder / "mine")
    image(folder / "mine/Val/bird/1.png", 9)


def copies_in_two_splits(folder: Path) -> None:
    LAYOUTS["class_folders_with_splits"][0](folder / "mine")
    (valid,) = (folder / "mine/Val").rglob("val0.png")
    (train,) = (folder / "mine/Train").rglob("train0.png")
    valid.write_bytes(train.read_bytes())


def broken_annotations(folder: Path) -> None:
    LAYOUTS["coco"][0](folder / "mine")
    (folder / "mine/annotations/instances_train2017.json").write_text('{"images": [\n  {"id": 1,}\n]}')


def misspelt_config(folder: Path) -> None:
    (folder / "config.yaml").write_text("extends: digits\n")


def ignored_reader(folder: Path) -> None:
    """A task that declares that it makes its data itself."""
    (folder / "options.py").write_text(
        "from trainer.configs import Declaration\nDECLARATION = Declaration(reads=False)\n"
    )
    (folder / "task.py").write_text("class Mine: pass\n")
    (folder / "config.yaml").write_text(
        "task: ./task.py:Mine\ndata: {root: ., reader: {name: image_folder}}\n"
        "optimizer: {name: sgd}\ntrain: {steps: 1}\n"
    )


CHECK = ("check", "config.yaml")
FLAT = ("check", "clothes", "data.root=mine")

MISTAKES: dict[str, tuple[Prepare, tuple[str, ...], tuple[str, ...]]] = {
    # what is written
    "a wrong key": (config("extends: digits\ntrain: {epoch: 3}\n"), CHECK,
        ("config.yaml:2:9 train.epoch: unknown key, did you mean 'epochs'?",)),
    "a wrong section": (config("extends: digits\ntraining: {epochs: 3}\n"), CHECK,
        ("config.yaml:2:1 training: unknown key, did you mean 'train'?",)),
    "a text for a number": (config('extends: digits\ntrain: {epochs: "3"}\n'), CHECK,
        ("config.yaml:2:17 train.epochs: expected an integer, found the text '3'",
         "Write 3 without quotation marks.")),
    "a word for a number": (nothing, ("check", "digits", "train.epochs=many"),
        ("<cli> train.epochs: expected an integer, found the text 'many'",)),
    "a negative learning rate": (nothing, ("check", "digits", "optimizer.learning_rate=-0.1"),
        ("<cli> optimizer.learning_rate: expected a number above 0, found -0.1",)),
    "percent for a share": (nothing, ("check", "digits", "options.dropout=30"),
        ("<cli> options.dropout: expected a number below 1, found 30",)),
    "a decimal comma": (config("extends: digits\noptimizer: {learning_rate: 0,001}\n"), CHECK,
        ("optimizer.learning_rate: expected a number above 0, found 0", "optimizer.001: unknown key")),
    "a key twice": (config("extends: digits\nseed: 1\nseed: 2\n"), CHECK,
        ("config.yaml:3:1 seed: duplicate key, first given at line 2",)),
    "a tab": (config("extends: digits\ntrain:\n\tepochs: 3\n"), CHECK,
        ("config.yaml:3:1: not YAML: found a tab; indent lines with spaces",)),
    "indentation that fits nothing": (config("extends: digits\ntrain:\n  epochs: 3\n log_every_steps: 3\n"), CHECK,
        ("config.yaml:4:2: not YAML: this line's indentation matches no line above;",)),
    "no space after the colon": (config("extends: digits\ntrain:\n  epochs:3\n"), CHECK,
        ("config.yaml:3:3 train: expected a mapping, found the text 'epochs:3'",
         "Put a space after the colon: epochs: 3.")),
    "a brace that is not closed": (config("extends: digits\ntrain: {epochs: 3\n"), CHECK,
        ("not YAML: a brace { is not closed, or a comma is missing after it",)),
    "one metric in place of a list": (config("extends: digits\nmetrics: {valid: accuracy}\n"), CHECK,
        ("config.yaml:2:18 metrics.valid: expected a list, found the text 'accuracy'", "Write [accuracy].")),
    "a best metric without its mode": (nothing, ("check", "digits", "checkpoint.best=valid/loss"),
        ("<cli> checkpoint.best: expected a mapping", "Expected a mapping with the keys: metric, mode, keep.")),
    "an override without =": (nothing, ("check", "digits", "train.epochs", "3"),
        ("<cli>: 'train.epochs' is not of the form key=value, such as train.epochs=5",)),
    "an option that the task does not have": (nothing, ("check", "digits", "options.droput=0.5"),
        ("<cli> options.droput: unknown key, did you mean 'dropout'?",)),
    # what is named
    "a typo in a recipe": (nothing, ("check", "digit"),
        ("no recipe and no file has this name, did you mean 'digits'?",)),
    "a typo in a file": (misspelt_config, ("check", "confg.yaml"),
        ("confg.yaml: no such file, did you mean 'config.yaml'?",)),
    "files that extend each other": (circle, ("check", "a.yaml"),
        ("b.yaml:1:10 extends: files extend each other in a circle: a.yaml -> b.yaml -> a.yaml",)),
    "a task's file that is not there": (
        config("task: ./net.py:Net\noptimizer: {name: sgd}\ntrain: {steps: 1}\n"), CHECK,
        ("config.yaml:1:7 task: no file {folder}/net.py",)),
    "a task without its class": (config("task: ./net.py\noptimizer: {name: sgd}\ntrain: {steps: 1}\n"), CHECK,
        ("config.yaml:1:7 task: name the class too, as in ./net.py:MyTask",)),
    "weights that are not there": (nothing, ("check", "digits", "model.weights=best.pt"),
        ("<cli> model.weights: no such file: {folder}/best.pt",
         "expected: a weights file, a checkpoint or a run directory")),
    "a device that there is not": (nothing, ("check", "digits", "device=gpu"),
        ("<cli> device: expected 'cpu', 'cuda', 'cuda:N' or 'reference', found 'gpu', did you mean 'cuda'?",)),
    "a run that is none": (layout("class_folders"), ("run", "--resume", "mine"),
        ("no such run: mine", "expected: a run directory, or the name of a run in runs/")),
    # optimizers, metrics, length
    "one optimizer for a task of two": (config("extends: pix2pix\noptimizer: {name: adam}\n"), CHECK,
        ("config.yaml:2:12 optimizer: the task pix2pix uses other optimizers", "found:    a single `optimizer:`",
         "Write optimizers: {generator: {name: adam, learning_rate: 0.0002}, discriminator: ")),
    "several optimizers for a task of one": (config("extends: digits\noptimizers: {main: {name: adam}}\n"), CHECK,
        ("config.yaml:2:13 optimizers: the task digits uses other optimizers", "Write optimizer: {name: adamw, ")),
    "an unknown optimizer": (nothing, ("check", "digits", "optimizer.name=adamW"),
        ("found 'adamW', did you mean 'adamw'?",)),
    "an unknown metric": (nothing, ("check", "digits", "metrics.valid=[acc]"),
        ("<cli> metrics.valid[0]: no metric 'acc', did you mean 'accuracy'?",)),
    "a metric of another task": (nothing, ("check", "digits", "metrics.valid=[coco]"),
        ("<cli> metrics.valid[0]: the metric 'coco' can't be computed from the predictions of the task digits",
         "found:    classes (logits, labels)", "Remove it, or choose from: accuracy, ")),
    "a best metric that nothing measures": (nothing,
        ("check", "digits", "checkpoint.best={metric: valid/f1, mode: max}"),
        ("checkpoint.best monitors a metric that is never computed", "expected: valid/loss, valid/accuracy",
         "Add f1 to metrics.valid, or monitor one of those.")),
    "averaged weights that there are not": (nothing, ("check", "digits", "checkpoint.best.metric=valid/ema/loss"),
        ("checkpoint.best monitors a metric that is never computed",
         "set train.ema={decay: 0.999}, or remove ema/.")),
    "a warm-up longer than the run": (nothing,
        ("check", "digits", "schedule.warmup_steps=100", "train.epochs=null", "train.steps=50"),
        ("a warm-up of 100 steps is longer than the run of 50 steps",)),
    "a reader as a word": (layout("class_folders"), (*FLAT, "data.reader=image_folder"),
        ("<cli> data.reader: expected a mapping", "Write {name: image_folder}.")),
    "a transform as a word": (nothing, ("check", "clothes", "data.transforms.train=[horizontal_flip]"),
        ("<cli> data.transforms.train[0]: expected a mapping", "Write {name: horizontal_flip}.")),
    "a part of a transform's name": (nothing, ("check", "clothes", "data.transforms.train=[{name: flip}]"),
        ("found 'flip', did you mean 'horizontal_flip'?",)),
    "two lengths": (config("extends: digits\ntrain: {epochs: 3, steps: 100}\n"), CHECK,
        ("train.steps: set together with 'epochs'; expected only one of them",)),
    # data
    "a data folder that is not there": (layout("class_folders"), ("check", "clothes", "data.root=mime"),
        ("<cli> data.root: no such data folder: {folder}/mime", "in {folder}: mine, did you mean 'mine'?")),
    "a file for a data folder": (layout("csv_labels"), ("check", "clothes", "data.root=mine/labels.csv"),
        ("<cli> data.root: expected a folder, found a file",)),
    "a folder without images": (folder_without_images, FLAT,
        ("<cli> data.root: {folder}/mine: unknown data format", "0 images in total",
         "a folder of images per class")),
    "data of another task": (layout("class_folders_with_splits"), ("check", "detection", "data.root=mine"),
        ("<cli> data.root: detection needs boxes, labels, image_id, placement, which this data doesn't have",
         "found:    class folders with splits, whose items have image, label, size",
         "Use the recipe clothes, digits or vit for this data.")),
    "metrics without a validation split": (layout("class_folders"), FLAT,
        ("metrics.valid: no validation split", "checkpoint.best: no validation split",
         "`data.reader.fractions={valid: 0.1}` takes a tenth of train.", "set metrics.valid=[].")),
    "a plateau without a validation split": (layout("class_folders"),
        ("check", "lsgan", "data.root=mine", "metrics.valid=[]", "checkpoint.best=null",
         "schedule={name: plateau, metric: valid/discriminator_output}"),
        ("<cli> schedule: no validation split",)),
    "a path with splits for data without": (layout("class_folders"),
        (*FLAT, "data.reader={name: image_folder, images: '{split}'}"),
        ("<cli> data.reader.images: {folder}/mine: no split found",
         "For data without splits, write paths without {split} (`images: .`)", "`fractions: {valid: 0.1}`")),
    "fractions of a split that is there": (layout("class_folders_with_splits"),
        (*FLAT, "data.reader.fractions={valid: 0.1}"),
        ("<cli> data.reader.fractions: the fractions can't be taken from train", "the data has train, valid",
         "Remove valid.")),
    "percent for fractions": (layout("class_folders"), (*FLAT, "data.reader.fractions={valid: 10}"),
        ("<cli> data.reader.fractions.valid: expected a number below 1, found 10",)),
    "an unknown reader": (layout("class_folders"), (*FLAT, "data.reader={name: imagefolder}"),
        ("found 'imagefolder', did you mean 'image_folder'?",)),
    "a reader without a folder": (
        config("task: digits\ndata: {reader: {name: image_folder}}\noptimizer: {name: sgd}\ntrain: {steps: 1}\n"),
        CHECK,
        ("config.yaml:2:16 data.reader: 'data.root', the folder of the data, is not set; a reader needs it",)),
    "a reader that the task ignores": (ignored_reader, CHECK,
        ("config.yaml:2:25 data.reader: the task Mine creates its data itself and would ignore the reader",)),
    "masks of another size": (masks_of_another_size, ("check", "segmentation", "data.root=mine", "--data"),
        ("<cli> data.root: train: 1 of 4 items can't be used: the size of a mask doesn't match its image",
         "expected: ",)),
    "other classes in another split": (other_classes_in_valid, (*FLAT, "--data"),
        ("{folder}/mine/Val/bird: the folder is not one of the classes", "expected: cat, dog")),
    "training images in validation": (copies_in_two_splits, (*FLAT, "--data"),
        ("<cli> data.root: 1 images are both in train and in valid", "Remove them from one of the two splits.")),
    "broken annotations": (broken_annotations, ("check", "detection", "data.root=mine"),
        ("instances_train2017.json:2", )),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_what_to_change(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, words, says = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    assert main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and "Traceback" not in told
    for part in says:
        assert part.replace("{folder}", str(tmp_path)) in told
    assert not (tmp_path / "runs").exists()


def test_a_batch_larger_than_the_data_is_a_warning(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    LAYOUTS["class_folders_with_splits"][0](tmp_path / "mine")
    assert main(["check", "clothes", "data.root=mine"]) == 0
    told = capsys.readouterr().out
    assert "a batch of 32 is larger than the 4 items of train" in told and "data.batch_size=4 is faster" in told

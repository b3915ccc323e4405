"""Data of the user's own: a recipe and `data.root`, and nothing else that says how the data lies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.datasets.layout_folders import LAYOUTS
from trainer import TrainerError
from trainer.cli import main
from trainer.cli.tasks import task_class
from trainer.configs import load
from trainer.learner import Learner

pytestmark = pytest.mark.usefixtures("on_the_reference_device")

STEPS = ("train.epochs=null", "train.steps=2", "data.batch_size=2", "data.valid_batch_size=2", "data.workers=0",
         "schedule={name: constant}", "numerics.class=exact", "autotune.mode=off", "validate={}",
         "checkpoint.every_epochs=null")  # fmt: skip
SMALL = {
    "digits": ("options.size=12",),
    "clothes": ("options.width=4", "data.transforms.train=[{name: resize, size: 16}, {name: one_hot}]",
                "data.transforms.valid=[{name: resize, size: 16}]"),
    "detection": ("options.width=4", "options.pyramid_channels=8", "options.head_depth=1",
                  "data.transforms={train: [{name: resize, size: 32}], valid: [{name: resize, size: 32}]}"),
    "segmentation": ("options.widths=[4, 8]", "options.reduction=1", "options.tile=32", "options.margin=4",
                     "data.transforms.train=[{name: resize, size: 32}]"),
    "pix2pix": ("options.filters=2", "options.depth=5",
                "data.transforms={train: [{name: resize, size: 32}], valid: [{name: resize, size: 32}]}"),
}  # fmt: skip


def learner(recipe: str, *overrides: str) -> Learner:
    loaded = load(recipe, [*STEPS, *SMALL[recipe], *overrides])
    return Learner(task_class(loaded.task), loaded.config, loaded.options)


RECIPES = {"coco": "detection", "yolo": "detection", "voc": "detection", "image_folder": "clothes", "table": "clothes",
           "segmentation": "segmentation", "pairs": "pix2pix"}  # fmt: skip
"""The recipe that fits the reader of a layout."""


@pytest.mark.full
@pytest.mark.parametrize(
    ("recipe", "layout"),
    [("digits", "class_folders_with_splits"), *((RECIPES[reader], name) for name, (_, reader, _) in LAYOUTS.items())],
)
def test_a_recipe_and_a_folder_are_enough(tmp_path: Path, recipe: str, layout: str) -> None:
    write, _, counts = LAYOUTS[layout]
    write(tmp_path)
    share = () if "valid" in counts else (share_offered(recipe, tmp_path),)
    run = learner(recipe, f"data.root={tmp_path}", *share)
    run.run().check()
    splits = run.training.splits
    assert splits.train.dataset is not None and splits.valid is not None and run.metrics["train/loss"] > 0


@pytest.mark.parametrize(
    ("recipe", "layout", "says"),
    [
        ("detection", "mask_folders", "the task needs the fields boxes, labels, image_id, placement"),
        ("segmentation", "voc", "the task needs the fields mask"),
        ("clothes", "coco", "the task needs the fields label"),
        ("digits", "pairs_in_two_folders", "the task needs the fields label"),
        ("pix2pix", "class_folders_with_splits", "the task needs the fields target"),
    ],
)
def test_data_of_another_kind_are_refused_in_words(tmp_path: Path, recipe: str, layout: str, says: str) -> None:
    LAYOUTS[layout][0](tmp_path)
    with pytest.raises(TrainerError) as caught:
        learner(recipe, f"data.root={tmp_path}").run().check()
    assert (
        says in str(caught.value) and f"train: {tmp_path}" in str(caught.value) and "trainer list" in str(caught.value)
    )


def share_offered(recipe: str, folder: Path) -> str:
    """The override by which the error about a missing validation split offers one, at a share that fits six items."""
    with pytest.raises(TrainerError, match="no validation split") as caught:
        learner(recipe, f"data.root={folder}").run().check()
    (offered,) = re.findall(r"`(data\.reader\.fractions=\{valid: 0\.1\})`", str(caught.value))
    return str(offered).replace("0.1", "0.34")


def test_the_format_is_told_before_anything_is_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LAYOUTS["voc"][0](tmp_path)
    assert main(["check", "detection", f"data.root={tmp_path}"]) == 0
    assert f"{tmp_path}: Pascal VOC: train 4, valid 2" in capsys.readouterr().out
    LAYOUTS["class_folders"][0](tmp_path / "flat")
    assert main(["check", "clothes", f"data.root={tmp_path / 'flat'}"]) == 2
    assert "no validation split" in capsys.readouterr().err
    assert main(["check", "clothes", f"data.root={tmp_path / 'flat'}", "data.reader.fractions={valid: 0.34}"]) == 0
    (tmp_path / "instances.json").write_text("{")
    assert main(["check", "detection", f"data.root={tmp_path}"]) == 2


def test_a_recipes_own_data_keeps_its_reader() -> None:
    assert load("clothes", []).config.data.reader.name == "image_folder"
    assert load("digits", ["data.reader.fractions.test=0.05"]).config.data.reader.name == "idx"


def test_what_a_task_needs_of_each_item_is_kept_and_where_its_files_lie_is_not(tmp_path: Path) -> None:
    reader = load("nuclei", [f"data.root={tmp_path}", "data.reader.fractions={valid: 0.1}"]).config.data.reader
    assert (reader.name, reader.masks, reader.channels, reader.fractions) == ("auto", True, 1, {"valid": 0.1})
    named = load("clothes", [f"data.root={tmp_path}", "data.reader={name: image_folder}"]).config.data.reader
    assert (named.name, named.images) == ("image_folder", ".")
    adapted = load("segmentation", [f"data.root={tmp_path}", "data.reader.images=photos"]).config.data.reader
    assert (adapted.name, adapted.images, adapted.masks) == ("segmentation", "photos", "masks/{split}")


def test_a_reader_that_is_named_is_the_one_that_digits_trains_on(tmp_path: Path) -> None:
    LAYOUTS["class_folders"][0](tmp_path)
    loaded = load("digits", [f"data.root={tmp_path}", "data.reader={name: image_folder, fractions: {valid: 0.34}}"])
    splits = task_class(loaded.task)(loaded.config, loaded.options).data()
    assert str(tmp_path) in splits.train.dataset.source(0) and len(splits.valid.dataset) == 2


def test_pix2pix_reads_what_is_named_where_there_are_photos_with_masks_too(tmp_path: Path) -> None:
    LAYOUTS["pairs_in_two_folders"][0](tmp_path)
    (tmp_path / "classes.json").write_text("{}")
    splits = task_class((loaded := load("pix2pix", [f"data.root={tmp_path}"])).task)(loaded.config, None).data()
    assert str(tmp_path / "A") in splits.train.dataset.source(0)


@pytest.mark.full
def test_metrics_of_validation_need_a_validation_split(tmp_path: Path) -> None:
    LAYOUTS["class_folders"][0](tmp_path)
    with pytest.raises(TrainerError) as caught:
        learner("clothes", f"data.root={tmp_path}").run().check()
    says = str(caught.value)
    assert "metrics.valid, checkpoint.best: no validation split" in says
    assert "found:    train: 6 items" in says and "data.reader.fractions={valid: 0.1}" in says
    learner("clothes", f"data.root={tmp_path}", "data.reader.fractions={valid: 0.34}").run().check()


def test_a_task_that_makes_its_own_data_refuses_a_reader(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(
        "import numpy as np\n"
        "from trainer.datasets import ArrayDataset, loaders\n"
        "from trainer.learner import DataSplits, Task\n"
        "class Mine(Task):\n"
        "    def data(self):\n"
        "        return DataSplits(**loaders({'train': ArrayDataset({'x': np.ones((4, 2))})}, self.config))\n"
    )
    (tmp_path / "config.yaml").write_text(
        "task: ./task.py:Mine\ndata: {root: ., batch_size: 2, reader: {name: image_folder}}\n"
        "optimizer: {name: sgd}\ntrain: {steps: 1}\n"
    )
    loaded = load(str(tmp_path / "config.yaml"), [])
    with pytest.raises(TrainerError, match="the task ignores the reader"):
        task_class(loaded.task)(loaded.config, loaded.options).data()


def test_a_missing_mask_of_validation_is_skipped_as_in_training(tmp_path: Path) -> None:
    LAYOUTS["mask_folders"][0](tmp_path)
    (tmp_path / "Masks/val/val1.png").unlink()
    with pytest.raises(TrainerError, match="an image without a mask"):
        learner("segmentation", f"data.root={tmp_path}").run().check()
    learner("segmentation", f"data.root={tmp_path}", "data.on_error=skip").run().check()

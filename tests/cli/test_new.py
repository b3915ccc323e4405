"""`trainer new`: projects that are complete, valid and train at once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Commands
from tests.datasets.layout_folders import LAYOUTS
from tests.tiers import tiered
from trainer import engine
from trainer.cli import main
from trainer.cli.projects import EDITOR_LINE, SCHEMA, write_project
from trainer.cli.tasks import task_class
from trainer.configs import RecipeIndex, load
from trainer.learner import Learner

SHORT = ("train.epochs=null", "train.steps=2", "schedule={name: constant}", "autotune.mode=off", "data.workers=0",
         "device=reference", "checkpoint.every_epochs=null")  # fmt: skip


def train(folder: Path, *overrides: str) -> Learner:
    loaded = load(str(folder / "config.yaml"), [*SHORT, *overrides])
    learner = Learner(task_class(loaded.task), loaded.config, loaded.options)
    learner.run().check()
    return learner


def test_a_copied_recipe_is_complete_and_valid_in_its_new_place(commands: Commands) -> None:
    commands.environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = commands.finish("new", "mine", "--recipe", "digits")
    assert done.returncode == 0 and "cd mine && trainer run config.yaml" in done.stdout
    mine = commands.folder / "mine"
    assert {"config.yaml", "options.py", "task.py", "README.md", "data"} <= {path.name for path in mine.iterdir()}
    assert not list(mine.rglob("__pycache__"))
    loaded = load(str(mine / "config.yaml"))
    assert loaded.task.file == mine / "task.py" and loaded.config.data.root == mine / "data"


def test_nothing_is_written_over(commands: Commands) -> None:
    (commands.folder / "mine").mkdir()
    (commands.folder / "mine" / "notes.txt").write_text("")
    done = commands.finish("new", "mine", "--recipe", "digits")
    assert done.returncode == 2 and "not empty" in done.stderr
    assert [path.name for path in (commands.folder / "mine").iterdir()] == ["notes.txt"]
    assert "did you mean 'digits'?" in commands.finish("new", "other", "--recipe", "digit").stderr


@pytest.mark.full
def test_a_project_without_a_recipe_trains_on_embedded_data(tmp_path: Path) -> None:
    assert write_project(tmp_path / "mine") is None
    learner = train(tmp_path / "mine", "options.width=2", "data.reader.fractions={valid: 0.01, test: 0.98}",
                    "data.batch_size=4", "data.valid_batch_size=20")  # fmt: skip
    assert learner.training is not None and len(learner.training.splits.train.dataset) == 100


@pytest.mark.parametrize(("layout", "has_fractions"), [("class_folders_with_splits", False), ("class_folders", True)])
def test_a_project_for_a_folder_of_photos_trains_on_it(tmp_path: Path, layout: str, has_fractions: bool) -> None:
    LAYOUTS[layout][0](tmp_path / "photos")
    line = write_project(tmp_path / "mine", data=tmp_path / "photos")
    assert line is not None and line.startswith(f"{tmp_path / 'photos'}: ")
    assert not (tmp_path / "mine" / "data").exists()
    text = (tmp_path / "mine" / "config.yaml").read_text(encoding="utf-8")
    assert ("fractions: {valid: 0.1, test: 0.1}" in text) == has_fractions
    shares = ["data.reader.fractions={valid: 0.34}"] if has_fractions else []
    learner = train(tmp_path / "mine", "options.width=2", "data.batch_size=2", "data.valid_batch_size=2", *shares)
    assert learner.training is not None
    pipeline = learner.training.task.pipeline()
    assert pipeline.class_names == tuple(learner.training.splits.train.dataset.class_names)
    images = engine.asarray(np.zeros((1, 3, 32, 32), np.uint8))
    assert pipeline.network(images)["logits"].shape == (1, len(pipeline.class_names))


def test_a_copied_recipe_points_at_a_folder_and_leaves_its_own_data_out(tmp_path: Path) -> None:
    LAYOUTS["coco"][0](tmp_path / "cells")
    write_project(tmp_path / "mine", recipe="nuclei", data=tmp_path / "cells")
    data = load(str(tmp_path / "mine" / "config.yaml")).config.data
    assert data.root == tmp_path / "cells" and data.reader is not None
    assert (data.reader.name, data.reader.masks, data.reader.channels) == ("auto", True, 1)
    assert not (tmp_path / "mine" / "data").exists()


def test_data_that_a_classifier_cannot_read_names_the_recipe_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LAYOUTS["voc"][0](tmp_path / "cells")
    assert main(["new", str(tmp_path / "mine"), "--data", str(tmp_path / "cells")]) == 2
    said = capsys.readouterr().err
    assert (
        "the template needs one class per image, which this data doesn't have" in said and "--recipe detection" in said
    )
    assert not (tmp_path / "mine").exists()
    (tmp_path / "texts").mkdir()
    for name, recipe in (("input", "shakespeare"), ("other", "names")):  # one text, then a text per class
        (tmp_path / "texts" / f"{name}.txt").write_text("a line\n")
        assert main(["new", str(tmp_path / "mine"), "--data", str(tmp_path / "texts")]) == 2
        assert f"--recipe {recipe}" in capsys.readouterr().err
    assert main(["new", str(tmp_path / "mine"), "--data", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("recipe", tiered([None, *RecipeIndex.built_in().names()], (None, "digits", "forecast")))
def test_editors_find_the_schema_that_the_project_has(tmp_path: Path, recipe: str | None) -> None:
    write_project(tmp_path / "mine", recipe=recipe)
    text = (tmp_path / "mine" / "config.yaml").read_text(encoding="utf-8")
    assert text.startswith(EDITOR_LINE) and re.findall(r"\$schema=(\S+)", text) == [SCHEMA]
    schema = json.loads((tmp_path / "mine" / SCHEMA).read_text(encoding="utf-8"))
    options = load(str(tmp_path / "mine" / "config.yaml")).options
    assert set(type(options).model_fields) == set(schema["properties"]["options"]["properties"])

"""Which metrics are named where there is room for a few, and the best value of the monitored one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.tui.synthetic_run import make_folder
from trainer.configs import dump_resolved, load
from trainer.configs.problems import Place
from trainer.configs.reader import read_yaml
from trainer.rundir import (
    ABSENT,
    Best,
    RunPaths,
    best_of,
    by_importance,
    config_values,
    differing_keys,
    named_first,
    read_note,
    task_name,
    write_note,
)
from trainer.tui.comparison import leaves

COCO = [f"{weights}coco/{name}" for weights in ("", "ema/") for name in ("AP", "AP50", "AP75", "AR100")]
DETECTION = [
    *(f"train/{name}" for name in ("loss", "class_loss", "learning_rate")),
    *(f"{split}/{name}" for split in ("valid", "test") for name in ("loss", "ema/loss", *COCO)),
]


def test_the_monitored_metric_comes_first_and_then_the_same_of_other_splits_and_weights() -> None:
    ordered = by_importance(DETECTION, "valid/ema/coco/AP")
    assert ordered[:4] == ["valid/ema/coco/AP", "test/ema/coco/AP", "test/coco/AP", "valid/coco/AP"]
    assert ordered[4:7] == ["test/ema/loss", "valid/ema/loss", "test/loss"], "of the monitored weights first"
    assert sorted(ordered) == sorted(DETECTION)


def test_without_a_monitored_metric_one_that_is_no_loss_leads() -> None:
    names = ["train/loss", "valid/loss", "valid/accuracy", "test/accuracy", "test/loss"]
    assert by_importance(names, None)[:3] == ["test/accuracy", "valid/accuracy", "test/loss"]
    assert by_importance(["train/loss"], None) == ["train/loss"] and by_importance([], None) == []


def test_a_named_test_split_is_the_same_quantity() -> None:
    assert by_importance(["test/far/loss", "test/far/accuracy"], "valid/accuracy")[0] == "test/far/accuracy"


def test_few_are_named_and_the_rest_is_counted() -> None:
    shown, left_out = named_first(dict.fromkeys(DETECTION, 0.5), "valid/ema/coco/AP")
    assert next(iter(shown)) == "valid/ema/coco/AP" and len(shown) == 4 and left_out == len(DETECTION) - 4


def test_what_the_data_does_not_have_goes_last_but_a_loss_that_is_nan_is_told() -> None:
    values = {"valid/APl": math.nan, "valid/AP": 0.5, "valid/loss": math.nan, "valid/AP50": 0.7}
    assert list(named_first(values, "valid/AP", 3)[0]) == ["valid/AP", "valid/loss", "valid/AP50"]


def with_best(root: Path, **manifest: object) -> RunPaths:
    paths = make_folder(root)
    folder = paths.checkpoints / "step-000000120"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (paths.checkpoints / "best").write_text(f"{folder.name}\n")
    return paths


def test_the_best_value_is_that_of_the_best_checkpoint(tmp_path: Path) -> None:
    assert best_of(with_best(tmp_path / "run", step=120, value=0.5)) == Best(0.5, 120)


@pytest.mark.parametrize("manifest", [{}, {"step": 1, "value": None}, {"step": 1, "value": "nan"}, {"value": 1.0}])
def test_a_best_checkpoint_without_a_value_has_none(tmp_path: Path, manifest: dict[str, object]) -> None:
    assert best_of(with_best(tmp_path / "run", **manifest)) is None


@pytest.mark.parametrize("name", ["step-7", "", "..", "/etc"])
def test_a_pointer_to_nothing_is_no_checkpoint(tmp_path: Path, name: str) -> None:
    paths = make_folder(tmp_path / "run")
    (paths.checkpoints / "best").write_text(name)
    assert paths.pointed("best") is None and best_of(paths) is None and paths.pointed("latest") is None


@pytest.mark.parametrize("recipe", ["digits", "detection"])
def test_the_values_of_a_resolved_config_are_those_that_a_yaml_reader_finds(recipe: str, tmp_path: Path) -> None:
    text = dump_resolved(load(recipe, {"data.root": "/data/a: b # c"}))
    paths = make_folder(tmp_path / "run")
    paths.config(1).write_text(text)
    found = config_values(paths)
    expected = dict(leaves(read_yaml(text, Place("config")).value))
    assert list(found) == list(expected) and found["data.root"] == "/data/a: b # c"
    for key, value in expected.items():
        if isinstance(value, str):
            assert found[key] == value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            assert float(found[key]) == value


def test_keys_that_differ_are_told_but_for_the_name() -> None:
    one = {"name": "a", "seed": "0", "train.epochs": "8"}
    other = {"name": "b", "seed": "0", "train.minutes": "3"}
    assert differing_keys([one, other]) == ["train.epochs", "train.minutes"] and differing_keys([one]) == []
    assert other.get("train.epochs", ABSENT) == "-"


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("digits", "digits"),
        ("/home/me/mine/task.py:Cells", "Cells"),
        ("C:\\mine\\task.py:Cells", "Cells"),
        ("a:b", "a:b"),
    ],
)
def test_a_task_is_called_by_its_name_and_not_by_its_file(task: str, name: str) -> None:
    assert task_name(task) == name


def test_a_note_is_kept_and_deleted(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    assert read_note(paths) == ""
    write_note(paths, " longer warm-up\n")
    assert read_note(paths) == "longer warm-up"
    write_note(paths, "")
    assert read_note(paths) == ""

"""The resolved configuration says everything, reads back equal from anywhere, and explains itself."""

from __future__ import annotations

import pytest
import yaml

from trainer.configs import dump_resolved, load, load_resolved

OVERRIDES = [
    "optimizer.name=adam", "optimizer.epsilon=1e-12", "schedule={name: step, milestones: [2, 5], warmup_epochs: 0.5}",
    "data.root='some folder/ü: # x'", "name=run.1", "seed=9007199254740993", "options.vocabulary='true'",
    "checkpoint.best={metric: valid/accuracy, mode: max}",
]  # fmt: skip


@pytest.mark.parametrize("overrides", [[], OVERRIDES])
def test_it_reads_back_equal_from_another_folder(gallery, tmp_path, monkeypatch, overrides):
    loaded = load("tiny", overrides, recipes=gallery)
    (tmp_path / "runs").mkdir()
    file = tmp_path / "runs" / "config-1.yaml"
    file.write_text(dump_resolved(loaded), encoding="utf-8")
    monkeypatch.chdir("/")
    again = load_resolved(file, recipes=gallery)
    assert again.config == loaded.config and again.options == loaded.options and again.task == loaded.task
    assert dump_resolved(again).count("\n") == dump_resolved(loaded).count("\n")


def test_every_value_says_where_it_came_from(gallery):
    lines = dump_resolved(load("tiny", ["seed=7"], recipes=gallery)).splitlines()
    assert lines[1].split() == ["task:", "tiny", "#", "recipe", "tiny"]
    assert any(line.split() == ["seed:", "7", "#", "<cli>"] for line in lines)
    assert any(line.split() == ["threads:", "null", "#", "default"] for line in lines)
    leaves = [line for line in lines[1:] if not line.endswith(":")]
    assert all("  # " in line for line in leaves)


def test_other_yaml_readers_agree(gallery):
    loaded = load("tiny", ["optimizer.learning_rate=0.25", "data.on_error=skip"], recipes=gallery)
    tree = yaml.safe_load(dump_resolved(loaded))
    assert tree["optimizer"]["learning_rate"] == 0.25 and tree["data"]["on_error"] == "skip"
    assert tree["options"] == loaded.config.options

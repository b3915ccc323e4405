"""Configurations as Python data: the same values, defaults and mistakes as from YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainer.configs import ConfigError, RunConfig, config_from, load

PLAIN = {"optimizer": {"name": "adam", "learning_rate": 0.01, "betas": [0.5, 0.9]}, "train": {"epochs": 2}}


def mistakes(data: dict[Any, Any]) -> list[str]:
    with pytest.raises(ConfigError) as found:
        config_from(data)
    return [str(problem) for problem in found.value.problems]


def test_lists_stand_for_tuples_and_paths_for_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = pytest.importorskip("numpy")
    monkeypatch.chdir(tmp_path)
    config = config_from({**PLAIN, "data": {"root": Path("digits")}, "seed": numpy.int64(7), "options": {"any": [1]}})
    assert config.optimizer is not None and config.optimizer.betas == (0.5, 0.9)  # type: ignore[union-attr]
    assert (config.seed, config.data.root, config.options) == (7, tmp_path / "digits", {"any": [1]})
    assert config_from(config.model_dump(mode="json", by_alias=True)) == config
    assert isinstance(config, RunConfig)


def test_every_mistake_is_told_at_once_with_its_key() -> None:
    assert mistakes({**PLAIN, "train": {"epoch": 1}, "seed": 1.5, "name": {3: 4}, "data": {"root": object()}}) == [
        "<config> name.3: expected text as a key, found 3",
        "<config> data.root: expected a value that YAML can represent, found an object of type object",
        "<config> train.epoch: unknown key, did you mean 'epochs'?",
        "<config> name: expected text, found an empty mapping",
        "<config> seed: expected an integer, found 1.5",
    ]
    assert mistakes({**PLAIN, "train": {"epochs": 1, "steps": 2}}) == [
        "<config> train.steps: set together with 'epochs'; expected only one of them"
    ]


def test_data_may_extend_a_file_and_be_overridden_by_key(gallery, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text("extends: tiny\nseed: 3\n")
    loaded = load(
        {"extends": "./base.yaml", "train": {"epochs": 9}},
        {"data": {"batch_size": 8}, "train.steps": 5, "options.sizes": (1, 2)},
        recipes=gallery,
    )
    config = loaded.config
    assert (config.seed, config.data.batch_size, config.train.steps, config.train.epochs) == (3, 8, 5, None)
    assert config.optimizer.momentum == 0.9 and loaded.options.sizes == (1, 2)
    assert loaded.provenance["train.steps"] == "<keywords>" and loaded.provenance["seed"] == "base.yaml:2:7"

"""What another value means to a run that is resumed."""

from __future__ import annotations

from pathlib import Path

from trainer import configs
from trainer.configs.resuming import EFFECTS, changes, effect_of, what_state_rests_on
from trainer.configs.run import RunConfig


def test_every_key_has_an_effect_and_every_line_a_key() -> None:
    sections = {"train", "data"}
    keys = {field.alias or name for name, field in RunConfig.model_fields.items()} - {"extends"}
    nested = {f"{section}.{key}" for section in sections for key in section_of(section)}
    for key in (keys - sections) | nested:
        effect_of(tuple(key.split(".")))
    assert set(EFFECTS) <= keys | nested


def section_of(name: str) -> set[str]:
    annotation = RunConfig.model_fields[name].annotation
    assert annotation is not None
    return set(annotation.model_fields)


def test_a_resolved_configuration_read_again_is_unchanged(tmp_path: Path) -> None:
    loaded = configs.load("digits", ())
    (tmp_path / "config-1.yaml").write_text(configs.dump_resolved(loaded))
    again = configs.load(str(tmp_path / "config-1.yaml"), ())
    assert changes(loaded.config, again.config) == []


def test_changes_name_the_key_both_values_and_what_they_do() -> None:
    before = configs.load("digits", ()).config
    after = configs.load("digits", ["train.ema={decay: 0.9}", "data.workers=3", "train.epochs=99", "seed=5"]).config
    found = {change.key: change for change in changes(before, after)}
    assert set(found) == {"train.ema", "data.workers", "train.epochs", "seed"}
    assert {key for key, change in found.items() if change.effect is None} == {"data.workers", "train.epochs"}
    assert (found["seed"].before, found["seed"].after) == (before.seed, 5)
    assert str(found["train.ema"]).startswith('train.ema: null, now {"decay": 0.9')


def test_what_may_be_changed_freely_is_no_part_of_what_the_state_rests_on() -> None:
    rests = what_state_rests_on(configs.load("digits", ()).config)
    assert "epochs" not in rests["train"] and "workers" not in rests["data"] and "checkpoint" not in rests
    assert {"accumulate", "precision", "ema"} <= set(rests["train"]) and "batch_size" in rests["data"]

"""Sections that are chosen by name: the tables are right, and what a config doesn't name costs it nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import get_args

import pytest
from pydantic import BaseModel

from trainer.configs import ConfigError, RunConfig, Section, config_from
from trainer.configs.choice import OWN_TAG, Choice, choice_of
from trainer.configs.metrics import MetricConfig
from trainer.configs.optimizers import Optimizing, ParameterGroup
from trainer.configs.optimizers.adaptive import AdamConfig
from trainer.configs.readers import Reading
from trainer.configs.schedules import Schedule
from trainer.configs.schedules.waves import CosineSchedule
from trainer.configs.transforms import Transforming

BASES = [MetricConfig, Optimizing, Reading, Schedule, Transforming]
ROWS = [(base, name) for base in BASES for name in choice_of(base).table]

BUILT = """
import json, sys
from trainer.configs import RecipeIndex, load
from trainer.configs.section import Section
if len(sys.argv) > 1:
    load("digits", sys.argv[1:])
def derived(kind):
    for one in kind.__subclasses__():
        yield one
        yield from derived(one)
found = {f"{one.__module__}.{one.__qualname__}": one.__pydantic_complete__ for one in derived(Section)}
print(json.dumps([sorted(found), sorted(name for name, is_built in found.items() if is_built)]))
"""


def sections_after(*overrides: str) -> tuple[set[str], set[str]]:
    """The sections that a new process has declared, and those it has built, after it read digits with `overrides`."""
    done = subprocess.run([sys.executable, "-c", BUILT, *overrides], capture_output=True, text=True, check=True)
    declared, built = json.loads(done.stdout)
    return set(declared), set(built)


def all_within(section: type[BaseModel]) -> set[type]:
    """The section and those of its fields."""
    inner = {
        kind for field in section.model_fields.values() for kind in (field.annotation, *get_args(field.annotation))
    }
    found = {kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel)}
    return {section}.union(*(all_within(kind) for kind in found))


def rows_in(found: set[str]) -> set[str]:
    """Of `found`, the sections that tables name."""
    rows = {choice_of(base).section(name) for base, name in ROWS if name != OWN_TAG}
    return found & {f"{row.__module__}.{row.__qualname__}" for row in rows}


def test_only_the_sections_that_a_config_names_are_built() -> None:
    declared, built = sections_after("seed=1")
    assert {name.rpartition(".")[2] for name in rows_in(built)} == {
        "AdamWConfig", "CosineSchedule", "AccuracyConfig", "IdxReader"
    }  # fmt: skip
    files = {name.rpartition(".")[0].removeprefix("trainer.configs.") for name in rows_in(declared)}
    assert files == {"optimizers.adaptive", "schedules.waves", "metrics.classification", "readers.formats"}


def test_importing_the_configs_declares_no_choice_at_all() -> None:
    declared, built = sections_after()
    assert declared and not rows_in(declared) and not built


def test_a_section_that_is_named_is_built() -> None:
    _, built = sections_after("data.root=.", "data.reader={name: idx, images: i, labels: l}", "optimizer.name=sgd")
    named = {"SgdConfig", "IdxReader", "CosineSchedule", "AccuracyConfig"}
    assert {name.rpartition(".")[2] for name in rows_in(built)} == named


@pytest.mark.parametrize(("base", "name"), ROWS)
def test_the_section_of_a_row_has_its_name_and_derives_from_its_base(base: type[Section], name: str) -> None:
    section = choice_of(base).section(name)
    assert issubclass(section, base)
    if name != OWN_TAG:
        assert get_args(section.model_fields["name"].annotation) == (name,)


def test_types_of_fields_are_no_texts_which_pydantic_would_compile_again_for_each_section() -> None:
    sections = {kind for base, name in ROWS for kind in choice_of(base).section(name).__mro__}
    texts = [
        f"{section.__name__}.{key}"
        for section in (sections | all_within(RunConfig)) - {BaseModel}
        if issubclass(section, BaseModel)
        for key, kind in vars(section).get("__annotations__", {}).items()
        if isinstance(kind, str)
    ]
    assert not texts, "leave out `from __future__ import annotations` in files of sections"


def test_sections_that_are_made_already_are_taken_as_they_are() -> None:
    schedule = CosineSchedule(warmup_steps=3)
    group = ParameterGroup(match="head.*", schedule=schedule)
    assert group.schedule is schedule
    made = AdamConfig.model_validate({"name": "adam", "schedule": {"name": "cosine", "warmup_steps": 3}})
    assert made.schedule == schedule


def test_a_base_is_asked_for_its_choice_and_other_sections_have_none() -> None:
    assert isinstance(choice_of(Schedule), Choice) and choice_of(CosineSchedule) is None


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"name": "cosin"}, "schedule.parts[1]: expected "),
        ({"name": "cosin"}, "found 'cosin', did you mean 'cosine'?"),
        ({"final_factor": 0.1}, "schedule.parts[1].name: required key is missing"),
        ({"name": ["cosine"]}, "schedule.parts[1]: expected "),
        ({"name": "cosine", "final_facto": 0.1},
         "schedule.parts[1].final_facto: unknown key, did you mean 'final_factor'?"),
        ({"name": "sequence", "parts": [{"name": "linear"}, {"name": "cosine", "period": 0}], "milestones": [5]},
         "schedule.parts[1].parts[1].period: expected a number above 0, found 0"),
    ],
)  # fmt: skip
def test_mistakes_within_sections_within_sections_are_told_of_at_their_place(part: object, problem: str) -> None:
    schedule = {"name": "sequence", "parts": [{"name": "linear"}, part], "milestones": [10]}
    with pytest.raises(ConfigError) as refused:
        config_from({"optimizer": {"name": "sgd"}, "train": {"steps": 20}, "schedule": schedule})
    assert problem in str(refused.value)

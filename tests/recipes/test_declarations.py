"""What each recipe declares in its options.py is what its task does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest

from trainer import engine
from trainer.cli.tasks import task_class
from trainer.configs import RecipeIndex, Returns, load
from trainer.configs.metrics import METRICS, metric_config
from trainer.engine.nn import RandomState
from trainer.learner import Plan, Task
from trainer.learner.programs import set_mode
from trainer.learner.task import model_states, parts_of
from trainer.metrics import Measured, Predictions
from trainer.metrics.detection import OPTIONAL
from trainer.metrics.registry import metric_from

pytestmark = pytest.mark.usefixtures("on_the_reference_device")

SMALL = {
    "adding": ("options.units=2", "options.length=4", "options.sequences=8", "options.held_out=4"),
    "clothes": ("options.width=4",),
    "detection": ("options.width=4", "options.pyramid_channels=8", "options.head_depth=1"),
    "lsgan": ("options.filters=2",),
    "nuclei": ("options.widths=[4, 8]",),
    "pix2pix": ("options.filters=2",),
    "segmentation": ("options.widths=[4, 8]", "options.flips=false"),
    "shakespeare": ("options.units=2", "options.embedding=2", "data.reader.length=5"),
    "transformer": ("options.width=4", "options.heads=2", "options.depth=1", "data.reader.length=5"),
    "vit": ("options.width=4", "options.heads=2", "options.depth=1", "options.patch=20"),
}
SLOW = ("detection", "nuclei")
SETTINGS = ("data.batch_size=1", "data.valid_batch_size=1", "data.workers=0", "data.cache_gb=0.0")


class Recording(Mapping[str, Any]):
    """A batch that notes which fields are read."""

    def __init__(self, batch: Mapping[str, Any]) -> None:
        self.batch, self.read = batch, set[str]()

    def __getitem__(self, field: str) -> Any:
        self.read.add(field)
        return self.batch[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self.batch)

    def __len__(self) -> int:
        return len(self.batch)

    def __contains__(self, field: object) -> bool:
        return field in self.batch


def returns(returned: Mapping[str, Any]) -> Returns:
    predictions = {name: tuple(role for role in value.roles if role not in OPTIONAL)
                   for name, value in returned.items() if isinstance(value, Predictions)}  # fmt: skip
    return Returns(tuple(name for name, value in returned.items() if isinstance(value, Measured)), predictions)


def alike(one: Returns, other: Returns) -> bool:
    """Whether they are the same in any order."""
    roles = [{name: set(given) for name, given in each.predictions.items()} for each in (one, other)]
    return set(one.metrics) == set(other.metrics) and roles[0] == roles[1]


@pytest.mark.parametrize(
    "recipe",
    [pytest.param(name, marks=[pytest.mark.full] if name in SLOW else []) for name in RecipeIndex.built_in().names()],
)
def test_a_recipe_declares_what_its_task_does(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(recipe, [*SETTINGS, *SMALL.get(recipe, ())])
    declared = loaded.declaration
    assert declared is not None and declared.reads == (loaded.config.data.reader is not None)
    optimizers: list[str] = []
    made = Task.optimizer_for
    monkeypatch.setattr(
        Task, "optimizer_for",
        lambda self, target, name="optimizer": optimizers.append(name) or made(self, target, name),
    )  # fmt: skip
    task = task_class(loaded.task)(loaded.config, loaded.options)
    splits = task.data()
    task.plan = Plan(1, 10)
    task.build()
    assert tuple(optimizers) == declared.optimizers
    names = model_states(parts_of(task))
    assert not task.head or any(fnmatchcase(name, pattern) for name in names for pattern in task.head)

    fields: set[str] = set()
    for is_training, loader, expected in ((True, splits.train, declared.train), (False, splits.valid, declared.valid)):
        set_mode(task, is_training=is_training)
        batch = Recording({name: engine.asarray(values) for name, values in loader.batch(0, 0).items()})
        step = task.train_step if is_training else task.valid_step
        with RandomState(0).step():
            found = returns(step(batch))
        assert alike(found, expected), found
        fields |= batch.read - set(OPTIONAL)
    given = set(loaded.config.data.reader.fields()) if declared.reads else set()
    assert not declared.reads or fields & given <= set(declared.fields) <= given


@pytest.mark.parametrize("name", METRICS)
def test_the_section_of_a_metric_knows_which_roles_it_needs(name: str) -> None:
    kinds = [{"kind": kind} for kind in ("bbox", "segm", "keypoints")] if name == "coco" else [{}]
    settings = {"classes": 2} if name == "panoptic_quality" else {}
    for kind in kinds:
        section = metric_config(name)(name=name, **settings, **kind)
        assert section.roles() == tuple(metric_from(section).needs)

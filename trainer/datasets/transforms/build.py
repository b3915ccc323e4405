"""Transforms as a configuration asks for them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.datasets.dataset import Dataset
from trainer.datasets.transforms.pipeline import Pipeline
from trainer.datasets.transforms.transform import Transform

if TYPE_CHECKING:
    from trainer.configs import TransformConfig


def pipeline_for(dataset: Dataset, sections: Sequence[TransformConfig] | None, seed: int) -> Dataset:
    """The data set with these transforms in the place of its own; as it is where they are None."""
    if sections is None:
        return dataset
    if isinstance(dataset, Pipeline):
        dataset = dataset.dataset
    return Pipeline(dataset, transforms_for(sections, dataset.class_names), seed) if sections else dataset


def transforms_for(sections: Sequence[TransformConfig], class_names: Sequence[str]) -> list[Transform]:
    """The transforms of the sections, for a data set with these classes.

    Raises:
        TrainerError: a file of the user's own has no such class, or it is not made with these options; one_hot has
            neither a number of classes nor a data set that names them.
    """
    return [_own(section) if section.is_own else _known(section, class_names) for section in sections]


def _known(section: TransformConfig, class_names: Sequence[str]) -> Transform:
    settings = section.settings()
    if settings.get("classes", 1) is None:
        if not class_names:
            raise TrainerError(
                f"{section.name} does not know how many classes there are",
                found="a data set that names none",
                expected=f"`classes` of {section.name}",
            )
        settings["classes"] = len(class_names)
    module, _, name = section.code.partition(":")
    kind: type[Transform] = getattr(importlib.import_module(f"trainer.datasets.transforms.{module}"), name)
    return kind(**settings)


def _own(section: TransformConfig) -> Transform:
    from trainer.configs.own import own_subclass  # takes 80 ms to import, which worker processes do without

    kind = own_subclass(section.name, Transform, "trainer.datasets.Transform")  # type: ignore[type-abstract]
    try:
        made = kind(**section.settings())
    except TypeError as error:
        raise TrainerError(f"the transform {section.name} can't be made", found=str(error)) from error
    made.probability = section.probability
    return made

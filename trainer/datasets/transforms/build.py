"""Transforms as a configuration asks for them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.datasets.dataset import Dataset
from trainer.datasets.known import sizes_of
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
    return Pipeline(dataset, transforms_for(sections, dataset), seed) if sections else dataset


def transforms_for(sections: Sequence[TransformConfig], dataset: Dataset) -> list[Transform]:
    """The transforms of the sections, for the items of a data set.

    Raises:
        TrainerError: a file of the user's own has no such class, or it is not made with these options; one_hot has
            neither a number of classes nor a data set that names them; pad to the largest image is not the first
            transform, or the data set does not know the sizes of its images.
    """
    return [_own(one) if one.is_own else _known(one, dataset, at == 0) for at, one in enumerate(sections)]


def _known(section: TransformConfig, dataset: Dataset, is_first: bool) -> Transform:
    settings = section.settings()
    if settings.get("to_largest"):
        if not is_first:
            raise TrainerError(
                "pad knows the largest image only before other transforms",
                found=f"{section.name} with to_largest after another transform",
                expected="pad first, or `size` of pad",
            )
        settings |= {"at_least": largest_image(dataset), "to_largest": False}
    if settings.get("classes", 1) is None:
        class_names = dataset.class_names
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


def largest_image(dataset: Dataset) -> tuple[int, int]:
    """Maximum height and maximum width of the images of a data set, which knows their sizes or is a `TrainerError`."""
    height, width = (int(most) for most in sizes_of(dataset).max(0))
    return height, width


def _own(section: TransformConfig) -> Transform:
    from trainer.configs.own import own_subclass  # takes 80 ms to import, which worker processes do without

    kind = own_subclass(section.name, Transform, "trainer.datasets.Transform")  # type: ignore[type-abstract]
    try:
        made = kind(**section.settings())
    except TypeError as error:
        raise TrainerError(f"the transform {section.name} can't be made", found=str(error)) from error
    made.probability = section.probability
    return made

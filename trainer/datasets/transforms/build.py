"""Creates the transforms of a configuration."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.datasets.dataset import Dataset
from trainer.datasets.item_properties import sizes_of
from trainer.datasets.transforms.pipeline import Pipeline
from trainer.datasets.transforms.transform import Transform

if TYPE_CHECKING:
    from trainer.configs import TransformConfig


def pipeline_for(dataset: Dataset, sections: Sequence[TransformConfig] | None, seed: int) -> Dataset:
    """The data set with these transforms instead of its own; unchanged if they are None."""
    if sections is None:
        return dataset
    if isinstance(dataset, Pipeline):
        dataset = dataset.dataset
    return Pipeline(dataset, transforms_for(sections, dataset), seed) if sections else dataset


def transforms_for(sections: Sequence[TransformConfig], dataset: Dataset) -> list[Transform]:
    """Creates the transforms of the sections, for the items of a data set.

    Raises:
        TrainerError: a custom class is missing or rejects its options; one_hot has neither a number of classes nor a
            data set with class names; pad with to_largest is not the first transform, or the data set does not know the
            sizes of its images.
    """
    return [_own(one) if one.is_own else _known(one, dataset, at == 0) for at, one in enumerate(sections)]


def _known(section: TransformConfig, dataset: Dataset, is_first: bool) -> Transform:
    settings = section.settings()
    if settings.get("to_largest"):
        if not is_first:
            raise TrainerError(
                "pad with to_largest must be the first transform",
                found=f"{section.name} with to_largest after another transform",
                expected="`pad` as the first transform, or pad with a `size`",
            )
        settings |= {"at_least": largest_image(dataset), "to_largest": False}
    if settings.get("classes", 1) is None:
        class_names = dataset.class_names
        if not class_names:
            raise TrainerError(
                f"{section.name} needs the number of classes",
                found="a data set that names none",
                expected=f"`classes` of {section.name}",
            )
        settings["classes"] = len(class_names)
    module, _, name = section.code.partition(":")
    kind: type[Transform] = getattr(importlib.import_module(f"trainer.datasets.transforms.{module}"), name)
    return kind(**settings)


def largest_image(dataset: Dataset) -> tuple[int, int]:
    """Maximum height and maximum width of the images of a data set. Raises `TrainerError` if it doesn't know their
    sizes.
    """
    height, width = (int(most) for most in sizes_of(dataset).max(0))
    return height, width


def _own(section: TransformConfig) -> Transform:
    from trainer.configs.custom_class import own_subclass  # the import takes 80 ms, which worker processes don't need

    kind = own_subclass(section.name, Transform, "trainer.datasets.Transform")  # type: ignore[type-abstract]
    try:
        made = kind(**section.settings())
    except TypeError as error:
        raise TrainerError(f"the transform {section.name} can't be created", found=str(error)) from error
    made.probability = section.probability
    return made

"""A task's requirements and return values as plain data: `DECLARATION` in its options.py; checks run no task code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.configs.model import ModelConfig, NormalizationConfig


@dataclass(frozen=True)
class Returns:
    """The names that a step returns: its own metrics, and predictions with their roles (without `weight`).

    A metric with several values (`objects/AP`) is listed by its first part. Roles that only some data sets have, such
    as `crowd`, are left out.
    """

    metrics: tuple[str, ...] = ()
    predictions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Declaration:
    """A task's requirements for its configuration and data, and the values that its steps return for metrics.

    Args:
        optimizers: names of the task's optimizers; "optimizer" stands for the section `optimizer:`.
        fields: fields that every item must have, as in docs/data.md.
        splits: splits that the data must have.
        reads: whether the task reads `data.reader`; False: the task creates its data, and a reader is an error.
        own_data: files in data.root that mark data in the task's own format; it is then read without `data.reader`.
        train, valid: the names that `train_step` and `valid_step` return.
        normalization: function from the task's options to the normalization of the network's images, used if neither
            the config nor the weights have one; None: the task doesn't use `model.normalization`.
    """

    optimizers: tuple[str, ...] = ("optimizer",)
    fields: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("train",)
    reads: bool = True
    own_data: tuple[str, ...] = ()
    train: Returns = Returns()
    valid: Returns = Returns()
    normalization: Callable[[Any], NormalizationConfig] | None = None

    def normalization_of(self, model: ModelConfig, options: Any) -> NormalizationConfig:
        """The normalization for a task with these options.

        Raises:
            ValueError: the task declares none.
        """
        if self.normalization is None:
            raise ValueError("the task declares no normalization")
        return model.normalization or self.normalization(options)

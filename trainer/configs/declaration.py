"""What a task needs and gives, as plain data: `DECLARATION` in its options.py, so that no task code runs in a check."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Returns:
    """What a step returns, by name: its own metrics, and predictions with their roles (without `weight`).

    A metric that has several numbers (`objects/AP`) is named by its first part. Roles that only some data have, such as
    `crowd`, are left out.
    """

    metrics: tuple[str, ...] = ()
    predictions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Declaration:
    """What a task requires of a configuration and its data, and what metrics find in its steps.

    Args:
        optimizers: the names that the task looks up; "optimizer" stands for the section `optimizer:`.
        fields: fields of items that the data must give, as in docs/data.md.
        splits: splits that the data must have.
        reads: whether the task reads `data.reader`; False: it makes its data itself, and a reader is an error.
        own_data: files in data.root by which the task recognizes data that it reads in a way of its own, whatever the
            reader that is named says of it.
        train, valid: what `train_step` and `valid_step` return.
    """

    optimizers: tuple[str, ...] = ("optimizer",)
    fields: tuple[str, ...] = ()
    splits: tuple[str, ...] = ("train",)
    reads: bool = True
    own_data: tuple[str, ...] = ()
    train: Returns = Returns()
    valid: Returns = Returns()

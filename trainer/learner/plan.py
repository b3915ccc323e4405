"""The plan of a training: its loaders and its number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.configs.train import TrainConfig
    from trainer.datasets import Loader


@dataclass(frozen=True)
class DataSplits:
    """The loaders of a task. Without `valid` there is no validation, without `test` no test at the end.

    Several test splits have names; their metrics are reported as test/<name>.
    """

    train: Loader
    valid: Loader | None = None
    test: Loader | Mapping[str, Loader] | None = None

    def tests(self) -> dict[str, Loader]:
        """The test splits, by the split names of their metrics."""
        if isinstance(self.test, Mapping):
            return {f"test/{name}": loader for name, loader in self.test.items()}
        return {} if self.test is None else {"test": self.test}

    def all(self) -> list[Loader]:
        """All loaders, the training split's first."""
        return [self.train, *([] if self.valid is None else [self.valid]), *self.tests().values()]


@dataclass(frozen=True)
class Plan:
    """The length of the training in steps, known after loading the data; `total_steps` is 0 if only time limits it."""

    steps_per_epoch: int
    total_steps: int

    @classmethod
    def for_config(cls, train: TrainConfig, splits: DataSplits) -> Plan:
        """Returns the length of a run with these loaders, as set by `train:`."""
        steps_per_epoch = -(-splits.train.steps_per_epoch // train.accumulate)
        return cls(steps_per_epoch, train.steps if train.steps is not None else (train.epochs or 0) * steps_per_epoch)

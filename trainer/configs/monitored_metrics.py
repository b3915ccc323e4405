"""The metrics that a configuration monitors, and the keys that need a split to be validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainer.configs.checks import sections_of
from trainer.configs.problems import KeyPath, dotted
from trainer.configs.readers.splits import VALID
from trainer.configs.run import RunConfig


def awaited_metrics(config: RunConfig) -> Iterator[tuple[KeyPath, str]]:
    """The metrics that checkpoints, early stopping, guards and schedules monitor, as split/name, with their keys."""
    if config.checkpoint.best is not None:
        yield ("checkpoint", "best", "metric"), config.checkpoint.best.metric
    if config.early_stopping is not None:
        yield ("early_stopping", "metric"), config.early_stopping.metric
    if config.sweep is not None and config.sweep.metric is not None:
        yield ("sweep", "metric"), config.sweep.metric
    if config.train.spike is not None:
        yield ("train", "spike", "metric"), config.train.spike.metric
    for path, section in sections_of(config):
        if getattr(section, "name", None) == "plateau" and isinstance(metric := getattr(section, "metric", None), str):
            yield (*path, "metric"), metric


def measured_on(config: RunConfig, split: str) -> list[KeyPath]:
    """The keys that need a split to be validated: its metrics, and the keys that monitor one of them."""
    asked: list[KeyPath] = [("metrics", split)] if getattr(config.metrics, split, None) else []
    for path, metric in awaited_metrics(config):
        if metric.startswith(f"{split}/"):
            asked.append(path[:-1])
    return asked


@dataclass(frozen=True)
class NoValidation:
    """Keys that need a validation split that does not exist, with the texts of the error."""

    paths: Sequence[KeyPath]
    found: str
    message = "no validation split"
    expected = "a split named valid"

    def hint(self, paths: Sequence[KeyPath]) -> str:
        """How to train with or without validation, for these keys."""
        off = " and ".join(f"{dotted(path)}={'[]' if path[0] == 'metrics' else 'null'}" for path in paths)
        return f"{share_of_train(VALID)} Without validation, set {off}."


def no_validation(config: RunConfig, splits: Mapping[str, int | None]) -> NoValidation | None:
    """The keys that need a validation split, if `splits` (number of items by name, None: unknown) has none."""
    paths = [] if VALID in splits else measured_on(config, VALID)
    found = ", ".join(split if items is None else f"{split}: {items} items" for split, items in splits.items())
    return NoValidation(paths, found) if paths else None


def share_of_train(split: str) -> str:
    """A hint on how to take a split from train."""
    return f"`data.reader.fractions={{{split}: 0.1}}` takes a tenth of train."

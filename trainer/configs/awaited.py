"""The metrics that a configuration monitors, and the keys that need a split to be validated."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.configs.checks import sections_of
from trainer.configs.problems import KeyPath
from trainer.configs.run import RunConfig


def awaited_metrics(config: RunConfig) -> Iterator[tuple[KeyPath, str]]:
    """The metrics that checkpoints, early stopping, guards and schedules monitor, as split/name, with their keys."""
    if config.checkpoint.best is not None:
        yield ("checkpoint", "best", "metric"), config.checkpoint.best.metric
    if config.early_stopping is not None:
        yield ("early_stopping", "metric"), config.early_stopping.metric
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

"""From the config's entry to the metric."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.configs.own import own_class
from trainer.metrics.metric import Metric

if TYPE_CHECKING:
    from trainer.configs import MetricConfig


def metric_from(config: MetricConfig) -> Metric:
    """The metric that an entry of `metrics:` asks for.

    Raises:
        TrainerError: a class of the user's own that is not there, is no metric, or does not take its options.
    """
    where = config.where()
    file, _, class_name = where.rpartition(":")
    if file.endswith(".py"):
        kind = _own(where, config.place)
    else:
        kind = getattr(importlib.import_module(f"trainer.metrics.{file}"), class_name)
    try:
        made: Metric = kind(**config.settings())
    except TypeError as error:
        raise TrainerError(f"the metric {config.name} can't be made", where=config.place, found=str(error)) from error
    return made


def _own(name: str, place: str) -> type[Metric]:
    try:
        found = own_class(name)
    except ValueError as error:
        raise TrainerError("no such metric", where=place, found=str(error)) from error
    if not issubclass(found, Metric):
        raise TrainerError(f"{name} is no metric", where=place, expected="a class derived from trainer.metrics.Metric")
    return found

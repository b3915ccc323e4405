"""Creates metrics from entries of the config."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.configs.custom_class import own_class
from trainer.metrics.metric import Metric

if TYPE_CHECKING:
    from trainer.configs import MetricConfig


def metric_from(config: MetricConfig) -> Metric:
    """Creates the metric of an entry of `metrics:`.

    Raises:
        TrainerError: a custom class is missing, is not a metric, or rejects its options.
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
        raise TrainerError(
            f"the metric {config.name} can't be created", where=config.place, found=str(error)
        ) from error
    return made


def _own(name: str, place: str) -> type[Metric]:
    try:
        found = own_class(name)
    except ValueError as error:
        raise TrainerError("no such metric", where=place, found=str(error)) from error
    if not issubclass(found, Metric):
        raise TrainerError(
            f"{name} is not a metric", where=place, expected="a class derived from trainer.metrics.Metric"
        )
    return found

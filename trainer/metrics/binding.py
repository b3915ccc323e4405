"""Selects the predictions of a step from which each metric of the config is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.metrics.metric import Measured, Metric
from trainer.metrics.predictions import Predictions
from trainer.metrics.registry import metric_from

if TYPE_CHECKING:
    from trainer.configs import MetricConfig


@dataclass(frozen=True)
class RequestedMetric:
    """A metric of the config: its name, its predictions, and its position in the config."""

    name: str
    metric: Metric
    of: str | None = None
    where: str = ""


def requested_metrics(configs: Sequence[MetricConfig]) -> list[RequestedMetric]:
    """The metrics of entries of `metrics:`.

    Raises:
        TrainerError: two have the same name, or a custom one can't be created.
    """
    found: dict[str, RequestedMetric] = {}
    for config in configs:
        name = config.shown_as
        if name in found:
            raise TrainerError(
                f"two metrics have the name {name!r}", where=config.place, hint="Rename one of them with `as:`."
            )
        found[name] = RequestedMetric(name, metric_from(config), config.of, config.place)
    return list(found.values())


def measured_in(returned: Any, requested: Sequence[RequestedMetric], *, step: str) -> dict[str, Measured]:
    """The metrics of a step by name, including those of the config.

    Args:
        returned: what `step` ("Digits.train_step") returned: metrics and predictions by name.

    Raises:
        TrainerError: the form is invalid, or a metric can't be computed from the predictions.
    """
    if not isinstance(returned, Mapping):
        raise TrainerError(
            f"{step} must return metrics by name", found=type(returned).__name__, expected="a dictionary"
        )
    measured = {name: value for name, value in returned.items() if isinstance(value, Measured)}
    predictions = {name: value for name, value in returned.items() if isinstance(value, Predictions)}
    for name, value in returned.items():
        if name not in measured and name not in predictions:
            raise TrainerError(
                f"{step} returned a value that is not a metric",
                found=f"{name}: {type(value).__name__}",
                expected="a metric such as Mean(loss), or Predictions, from trainer.metrics",
            )
    for one in requested:
        if one.name in measured:
            raise TrainerError(
                f"{step} itself returns a metric named {one.name!r}",
                where=one.where,
                hint="Remove it from the config, or rename it with `as:`.",
            )
        measured[one.name] = Measured(one.metric, _given(one, predictions, step))
    return measured


def _given(one: RequestedMetric, predictions: Mapping[str, Predictions], step: str) -> Predictions:
    needs = one.metric.needs
    if one.of is None:
        fitting = {name: given for name, given in predictions.items() if given.has(needs)}
    else:
        fitting = {one.of: predictions[one.of]} if one.of in predictions and predictions[one.of].has(needs) else {}
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    if fitting:
        raise TrainerError(
            f"the metric {one.name!r} fits several predictions of {step}",
            where=one.where,
            found=", ".join(fitting),
            expected="`of:` with one of them",
        )
    gives = "; ".join(f"{name} ({', '.join(given.roles)})" for name, given in predictions.items())
    raise TrainerError(
        f"the metric {one.name!r} can't be computed from the predictions of {step}",
        where=one.where,
        found=gives or "no Predictions",
        expected=("predictions named " + one.of + " " if one.of else "Predictions ")
        + "with " + ", ".join(" or ".join(need.split("|")) for need in needs),
    )  # fmt: skip

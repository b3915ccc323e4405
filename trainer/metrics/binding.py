"""Which predictions of a step each metric of the config is computed from."""

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
class Wanted:
    """A metric that the config asks for: what its numbers are called, of which predictions, and where that is said."""

    name: str
    metric: Metric
    of: str | None = None
    where: str = ""


def wanted_by(configs: Sequence[MetricConfig]) -> list[Wanted]:
    """The metrics of entries of `metrics:`.

    Raises:
        TrainerError: two are called the same, or one of the user's own can't be made.
    """
    found: dict[str, Wanted] = {}
    for config in configs:
        name = config.shown_as
        if name in found:
            raise TrainerError(
                f"two metrics are called {name!r}", where=config.place, hint="Give one another name with `as:`."
            )
        found[name] = Wanted(name, metric_from(config), config.of, config.place)
    return list(found.values())


def measured_in(returned: Any, wanted: Sequence[Wanted], *, step: str) -> dict[str, Measured]:
    """What a step returned as metrics by name, those that the config asks for among them.

    Args:
        returned: what `step` ("Digits.train_step") returned: metrics and predictions by name.

    Raises:
        TrainerError: it is of another form, or has no predictions that a metric could be computed from.
    """
    if not isinstance(returned, Mapping):
        raise TrainerError(f"{step} returns metrics by name", found=type(returned).__name__, expected="a dictionary")
    measured = {name: value for name, value in returned.items() if isinstance(value, Measured)}
    predictions = {name: value for name, value in returned.items() if isinstance(value, Predictions)}
    for name, value in returned.items():
        if name not in measured and name not in predictions:
            raise TrainerError(
                f"{step} returned something that is no metric",
                found=f"{name}: {type(value).__name__}",
                expected="a metric such as Mean(loss), or Predictions, from trainer.metrics",
            )
    for one in wanted:
        if one.name in measured:
            raise TrainerError(
                f"{step} itself returns a metric called {one.name!r}",
                where=one.where,
                hint="Leave the config's out, or give it another name with `as:`.",
            )
        measured[one.name] = Measured(one.metric, _given(one, predictions, step))
    return measured


def _given(one: Wanted, predictions: Mapping[str, Predictions], step: str) -> Predictions:
    needs = one.metric.needs
    if one.of is None:
        fitting = {name: given for name, given in predictions.items() if given.has(needs)}
    else:
        fitting = {one.of: predictions[one.of]} if one.of in predictions and predictions[one.of].has(needs) else {}
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    if fitting:
        raise TrainerError(
            f"the metric {one.name!r} could be computed from several predictions of {step}",
            where=one.where,
            found=", ".join(fitting),
            expected="`of:` with one of them",
        )
    gives = "; ".join(f"{name} ({', '.join(given.roles)})" for name, given in predictions.items())
    raise TrainerError(
        f"{step} gives nothing that the metric {one.name!r} could be computed from",
        where=one.where,
        found=gives or "no Predictions",
        expected=("predictions called " + one.of + " " if one.of else "Predictions ")
        + "with " + ", ".join(" or ".join(need.split("|")) for need in needs),
    )  # fmt: skip

"""The base class of metrics: a state accumulated over batches, and a pure function from the state to named values.

    in the traced step      partial(given) → sums of one batch, or its rows
    between steps           state = fold(state, part)              on the device, or in a separate process
    at the end of a period  values(state), reports(state)

A value therefore describes the whole period and is never a mean of per-batch ratios. Padding rows (weight 0) are
ignored. A state consists of arrays by name, which checkpoints save and `merge` combines.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from trainer import TrainerError
from trainer.engine import Tensor
from trainer.metrics.predictions import Predictions

State = Mapping[str, np.ndarray]
"""The accumulated state of a metric: arrays by name. Empty before the first batch."""

Part = Mapping[str, np.ndarray]
"""The result of `partial` for one batch, as arrays; for metrics folded off the device also "weight", float32 [B]."""

Place = Literal["device", "worker", "aside"]


@dataclass(frozen=True)
class Report:
    """A result with many values for `reports/`: plain JSON (numbers, text, lists, mappings), with one form per kind.

    `kind` is confusion_matrix, curve, per_class, coco or a custom name.
    """

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)


class Metric:
    """Base class of metrics; created from its options, independent of batches.

        class WithinOne(Metric):
            '''The fraction of examples whose class is at most `distance` off.'''

            needs = ("logits", "labels")

            def __init__(self, distance: int = 1) -> None:
                self.distance = distance

            def partial(self, given):
                off = engine.abs(engine.argmax(given["logits"], axis=1) - given["labels"].astype(int64))
                return {"near": given.total(off <= self.distance), "all": given.total()}

            def values(self, state):
                return {"": state["near"] / state["all"]}

    Attributes:
        needs: the required roles; alternatives as "logits|scores".
        folds_in: "device": parts are sums of constant shape, accumulated in the step and read when needed; the
            cheapest. "worker": `fold` runs in a separate process, for parts that are rows. "aside": in another process,
            so that training continues while `values` takes seconds.
    """

    needs: tuple[str, ...] = ()
    folds_in: Place = "device"

    def name_classes(self, names: Sequence[str]) -> None:
        """Receives the class names of the data set before the first step, for reports."""

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        """Computes one batch's part of the state, inside the traced step; the same names and shapes for every batch.

        Sums ("device") are scalars or arrays, which are summed in float64.
        """
        raise TrainerError(f"{type(self).__name__} has no `partial` method")

    def values(self, state: State) -> Mapping[str, float]:
        """The values of a state with at least one batch; NaN if undefined.

        The keys are suffixes of the metric's name: {"": 0.9} becomes `accuracy`, {"small": 0.2} becomes
        `accuracy/small`.
        """
        raise TrainerError(f"{type(self).__name__} has no `values` method")

    def reports(self, state: State) -> Mapping[str, Report]:
        """Results with many values, by suffix of the metric's name; none by default."""
        return {}

    def fold(self, state: State, part: Part) -> State:
        """The state after one more batch; may change and return `state`."""
        return {name: state.get(name, 0) + value for name, value in part.items() if name != WEIGHT}

    def merge(self, one: State, other: State) -> State:
        """The combined state of both; may change `one`."""
        if not one or not other:
            return one or other
        return {name: one[name] + other[name] for name in one}

    def restored(self, state: State) -> State:
        """A state in the form that `fold` returns, from the plain arrays of a checkpoint."""
        return dict(state)

    def state_key(self) -> Hashable:
        """Metrics with the same key and predictions share a state; None: a separate state.

        The key must contain everything that affects `partial`, `fold` and `merge`, such as (ClassCounts, threshold).
        """
        return None

    def on(self, *, weight: Tensor | None = None, **roles: Tensor) -> Measured:
        """This metric with tensors of a step by role, for the dictionary that `train_step` and `valid_step` return."""
        return Measured(self, Predictions(weight=weight, **roles))


WEIGHT = "weight"


class Measured:
    """A metric and its inputs in the step being traced."""

    def __init__(self, metric: Metric, given: Predictions | None = None) -> None:
        self.metric, self.given = metric, given

    def partial(self) -> Mapping[str, Tensor]:
        """The batch's part of the metric's state."""
        assert self.given is not None
        return self.metric.partial(self.given)


def value_names(name: str, values: Mapping[str, float]) -> dict[str, float]:
    """A metric's values under their full names."""
    return {f"{name}/{further}" if further else name: float(value) for further, value in values.items()}


def report_names(name: str, reports: Mapping[str, Report]) -> dict[str, Report]:
    """A metric's reports under their full names."""
    return {f"{name}/{further}" if further else name: report for further, report in reports.items()}

"""What a metric is: a state that adds up over batches, and a pure function from the state to named numbers.

    in the traced step      partial(given) → sums of one batch, or its rows
    between steps           state = fold(state, part)              on the device, or in a process of its own
    at the end of a period  values(state), reports(state)

So a value is that of the whole period, never a mean of per-batch ratios; padded rows (weight 0) do not count; and a
state is arrays by name, which checkpoints hold and `merge` joins.
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
"""What a metric has accumulated: arrays by name. Empty before the first batch."""

Part = Mapping[str, np.ndarray]
"""What `partial` gave for one batch, as arrays; for metrics folded off the device also "weight", float32 [B]."""

Place = Literal["device", "worker", "aside"]


@dataclass(frozen=True)
class Report:
    """A result of many numbers for `reports/`: plain JSON (numbers, text, lists, mappings), of one form a kind.

    `kind` is confusion_matrix, curve, per_class, coco or a name of one's own.
    """

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)


class Metric:
    """Base of metrics; made from its options, it knows nothing of any batch.

        class WithinOne(Metric):
            '''The share of examples whose class is at most `distance` off.'''

            needs = ("logits", "labels")

            def __init__(self, distance: int = 1) -> None:
                self.distance = distance

            def partial(self, given):
                off = engine.abs(engine.argmax(given["logits"], axis=1) - given["labels"].astype(int64))
                return {"near": given.total(off <= self.distance), "all": given.total()}

            def values(self, state):
                return {"": state["near"] / state["all"]}

    Attributes:
        needs: the roles without which it can't be computed; alternatives as "logits|scores".
        folds_in: "device": the parts are sums of one shape, which are added up in the step itself and read when they
            are wanted: the cheapest. "worker": `fold` runs in a process of its own, for parts that are rows.
            "aside": in another one, and training goes on while `values` takes its time; for evaluations of seconds.
    """

    needs: tuple[str, ...] = ()
    folds_in: Place = "device"

    def name_classes(self, names: Sequence[str]) -> None:
        """Hears the names of the data set's classes before the first step, for reports."""

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        """One batch's part of the state, inside the traced step; the same names and shapes for every batch.

        Sums ("device") are scalars or arrays, which are added up in float64.
        """
        raise TrainerError(f"{type(self).__name__} has no `partial` method")

    def values(self, state: State) -> Mapping[str, float]:
        """The numbers of a state that at least one batch was folded into; nan where nothing counted.

        By what follows the metric's name: {"": 0.9} is told of as `accuracy`, {"small": 0.2} as `accuracy/small`.
        """
        raise TrainerError(f"{type(self).__name__} has no `values` method")

    def reports(self, state: State) -> Mapping[str, Report]:
        """Results of many numbers, by what follows the metric's name; none by default."""
        return {}

    def fold(self, state: State, part: Part) -> State:
        """The state after one more batch; may change and return `state`."""
        return {name: state.get(name, 0) + value for name, value in part.items() if name != WEIGHT}

    def merge(self, one: State, other: State) -> State:
        """The state of both; may change `one`."""
        if not one or not other:
            return one or other
        return {name: one[name] + other[name] for name in one}

    def restored(self, state: State) -> State:
        """A state as `fold` keeps it, from the plain arrays of a checkpoint."""
        return dict(state)

    def state_key(self) -> Hashable:
        """Metrics of one key over the same predictions share a state, which is then made once; None: its own.

        All that decides `partial`, `fold` and `merge` belongs into it, such as (ClassCounts, threshold).
        """
        return None

    def on(self, *, weight: Tensor | None = None, **roles: Tensor) -> Measured:
        """This metric on tensors of a step by role, for the dictionary that `train_step` and `valid_step` return."""
        return Measured(self, Predictions(weight=weight, **roles))


WEIGHT = "weight"


class Measured:
    """A metric and what it is computed from in the step that is being traced."""

    def __init__(self, metric: Metric, given: Predictions | None = None) -> None:
        self.metric, self.given = metric, given

    def partial(self) -> Mapping[str, Tensor]:
        """The batch's part of the metric's state."""
        assert self.given is not None
        return self.metric.partial(self.given)


def value_names(name: str, values: Mapping[str, float]) -> dict[str, float]:
    """A metric's numbers under their full names."""
    return {f"{name}/{further}" if further else name: float(value) for further, value in values.items()}


def report_names(name: str, reports: Mapping[str, Report]) -> dict[str, Report]:
    """A metric's reports under their full names."""
    return {f"{name}/{further}" if further else name: report for further, report in reports.items()}

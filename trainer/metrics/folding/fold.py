"""The work of the folding process on records: states of streams, folding, values. Independent of pipes and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.metrics.metric import WEIGHT, Metric, Report, State, report_names, value_names


class NotANumber(TrainerError):
    """A NaN in the input of a metric, in `row` of its batch."""

    def __init__(self, part: str, row: int, at: Any = None) -> None:
        self.part, self.row = part, row
        self.at = at
        """The batch, as named by the sender."""
        super().__init__(f"NaN in the {part} of a metric", found=f"in row {row} of the batch")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.part, self.row)


@dataclass(frozen=True)
class Slot:
    """A state and the metrics, by name, that are computed from it."""

    metrics: Mapping[str, Metric]

    @property
    def folding(self) -> Metric:
        """The metric that folds: any of them, since they share the state."""
        return next(iter(self.metrics.values()))


@dataclass
class Stream:
    """The states of a split's slots, by slot."""

    slots: dict[str, Slot]
    states: dict[str, State] = field(default_factory=dict)

    def fold(self, slot: str, part: Mapping[str, np.ndarray]) -> None:
        """Folds one batch's part.

        Raises:
            NotANumber: a row with weight contains a NaN.
        """
        refuse_nan(part)
        self.states[slot] = self.slots[slot].folding.fold(self.states.get(slot, {}), part)

    def values(self) -> tuple[dict[str, float], dict[str, Report]]:
        """Values and reports of all metrics, except slots without any batch."""
        numbers: dict[str, float] = {}
        reports: dict[str, Report] = {}
        for name, state in self.states.items():
            for metric_name, metric in self.slots[name].metrics.items():
                numbers.update(value_names(metric_name, metric.values(state)))
                reports.update(report_names(metric_name, metric.reports(state)))
        return numbers, reports

    def arrays(self) -> dict[str, dict[str, np.ndarray]]:
        """The states as plain arrays."""
        return {
            name: {part: np.asarray(values) for part, values in state.items()} for name, state in self.states.items()
        }

    def restore(self, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Restores states; those of removed slots are ignored."""
        self.states = {name: self.slots[name].folding.restored(dict(state)) for name, state in arrays.items()
                       if name in self.slots}  # fmt: skip


def refuse_nan(part: Mapping[str, np.ndarray]) -> None:
    """Raises `NotANumber` for the first row with weight that contains a NaN."""
    weight = part.get(WEIGHT)
    for name, values in part.items():
        if values.dtype.kind != "f" or name == WEIGHT or not np.isnan(np.min(values, initial=np.inf)):
            continue
        bad = np.isnan(values).reshape(len(values), -1).any(axis=1)
        if weight is not None and len(weight) == len(bad):
            bad &= weight != 0
        if bad.any():
            raise NotANumber(name, int(bad.argmax()))

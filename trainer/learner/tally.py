"""The half of a meter that lives in the traced step: sums are added up on the device, rows are given back.

It holds nothing of the other half: what a step can see must not change between steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer import engine
from trainer.engine import State, Tensor, float64, int64
from trainer.metrics import Measured, Metric
from trainer.metrics.binding import Wanted, measured_in
from trainer.metrics.folding import Slot
from trainer.metrics.metric import WEIGHT

NEVER = -1

Handed = dict[str, dict[str, Tensor]]
"""What a traced step returns for processes that fold: by slot, a batch's rows by part."""


@dataclass
class Sums:
    """The accumulated sums of one slot, and the first step at which one of them was not finite."""

    at: str
    parts: dict[str, State] = field(default_factory=dict)
    metrics: dict[str, Metric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first_bad_step = State(np.asarray(NEVER), f"{self.at}.first_bad_step", int64)

    def part(self, name: str, shape: tuple[int, ...], dtype: str) -> State:
        """The state of a part; made anew where there is none of this form."""
        state = self.parts.get(name)
        if state is None or state.shape != shape or state.dtype.name != dtype:
            kind = int64 if dtype == "int64" else float64
            state = self.parts[name] = State(np.zeros(shape), f"{self.at}.{name}", kind)
        return state

    @property
    def states(self) -> list[State]:
        """All of them."""
        return [*self.parts.values(), self.first_bad_step]


class Tally:
    """What a program measures.

    Args:
        name: begins the names of its states.
        wanted: what the config asks for.

    Attributes:
        sums: by slot, a state that one or several metrics share.
        slots: by where it is folded off the device, the slots; known once the step is traced.
        batches: how many batches were added since the beginning of the period.
    """

    def __init__(self, name: str, wanted: Sequence[Wanted] = ()) -> None:
        self.name, self.wanted = name, wanted
        self.batches = State(np.zeros(()), f"{name}.batches", int64)
        self.sums: dict[str, Sums] = {}
        self.slots: dict[str, dict[str, Slot]] = {}

    def add(self, returned: Any, step: Tensor, *, by: str, only_if: Tensor | None = None) -> Handed:
        """Add what a step returned, inside it; gives the rows to hand over after it.

        Args:
            returned: metrics and predictions by name, from the task's step, which is called `by`.
            step: int64 scalar, noted where something is not finite.
            only_if: a scalar; a step of which it is false counts for nothing.
        """
        handed: Handed = {}
        for slot, sharing in _shared(measured_in(returned, self.wanted, step=by)).items():
            measured = next(iter(sharing.values()))
            metrics = {name: one.metric for name, one in sharing.items()}
            part = measured.partial()
            if measured.metric.folds_in == "device":
                self._add_up(slot, metrics, part, step, only_if)
                continue
            assert measured.given is not None
            weight = measured.given.weight
            if only_if is not None:
                weight = engine.where(only_if, weight, engine.zeros_like(weight))
            handed[slot] = {**part, WEIGHT: weight}
            self.slots.setdefault(measured.metric.folds_in, {})[slot] = Slot(metrics)
        self.batches.assign(self.batches + 1)
        return handed

    def check(self, returned: Any, *, by: str) -> None:
        """Refuse what `add` would refuse; computes nothing.

        Raises:
            TrainerError: a metric can't be computed from what the step called `by` returned.
        """
        for measured in measured_in(returned, self.wanted, step=by).values():
            measured.partial()

    def _add_up(
        self, slot: str, metrics: dict[str, Metric], part: Mapping[str, Tensor], step: Tensor, only_if: Tensor | None
    ) -> None:
        sums = self.sums.setdefault(slot, Sums(f"{self.name}.{slot}"))
        sums.metrics = metrics
        is_finite = engine.asarray(True)
        for name, value in part.items():
            added = value.astype(int64 if value.dtype.is_integer else float64)
            if only_if is not None:
                added = engine.where(only_if, added, engine.zeros_like(added))
            state = sums.part(name, added.shape, added.dtype.name)
            state.assign(state + added)
            if not value.dtype.is_integer:
                is_finite = engine.logical_and(is_finite, engine.all(engine.isfinite(added)))
        is_first = engine.logical_and(sums.first_bad_step == NEVER, engine.logical_not(is_finite))
        sums.first_bad_step.assign(engine.where(is_first, step, sums.first_bad_step))

    def first_not_finite(self) -> tuple[str, int] | None:
        """(metric, step) of the earliest sum that was not finite, or None."""
        steps = [(int(sums.first_bad_step.item()), name) for name, sums in self.sums.items()]
        step, name = min((found for found in steps if found[0] != NEVER), default=(NEVER, ""))
        return None if step == NEVER else (name, step)

    def reset(self) -> None:
        """Begin anew."""
        for sums in self.sums.values():
            for state in sums.parts.values():
                state.set_value(np.zeros(state.shape))
            sums.first_bad_step.set_value(np.asarray(NEVER))
        self.batches.set_value(np.zeros(()))

    def describe(self) -> dict[str, Any]:
        """The form of each slot's sums: what `prepare` takes."""
        return {
            slot: {name: [list(state.shape), state.dtype.name] for name, state in sums.parts.items()}
            for slot, sums in self.sums.items()
        }

    def prepare(self, description: Mapping[str, Any]) -> None:
        """Make the states of sums before the first step, so that they can be restored from a checkpoint."""
        for slot, parts in description.items():
            sums = self.sums.setdefault(slot, Sums(f"{self.name}.{slot}"))
            for name, (shape, dtype) in parts.items():
                sums.part(name, tuple(shape), dtype)

    def named_states(self) -> dict[str, State]:
        """The states of sums by name, for a checkpoint."""
        sums = {state.name: state for sums in self.sums.values() for state in sums.states}
        return {self.batches.name: self.batches, **sums}


def _shared(measured: Mapping[str, Measured]) -> dict[str, dict[str, Measured]]:
    """The metrics by slot: those that share a state together, under the first one's name."""
    slots: dict[str, dict[str, Measured]] = {}
    known: dict[Any, str] = {}
    for name, one in measured.items():
        key = one.metric.state_key()
        slot = name if key is None else known.setdefault((key, id(one.given)), name)
        slots.setdefault(slot, {})[name] = one
    return slots

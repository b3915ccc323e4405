"""The traced part of a meter: sums are accumulated on the device, rows are returned.

It is separate from the other part because attributes visible to a step must not change between steps. All small sums
form one state, and all rows of a step one array per type, because each state and each result costs 4 µs per step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import State, Tensor, bfloat16, float32, float64, int32, int64
from trainer.engine.functions.shards import shard_gather
from trainer.engine.sharding import check_rows, shard_count
from trainer.learner.deferred_actions import Read
from trainer.metrics import Measured, Metric, Predictions
from trainer.metrics import State as Arrays
from trainer.metrics.binding import RequestedMetric, measured_in
from trainer.metrics.folding import Form, Slot
from trainer.metrics.metric import WEIGHT

NEVER = -1
LARGE = 4096
"""Minimum number of elements of a sum with its own state: concatenating it with others would cost another copy."""

Handed = dict[str, dict[str, Any]]
"""Rows that a traced step returns for processes that fold: by place, {"form": its number, element type: rows [n]}."""

Field = tuple[str, str, tuple[int, ...]]
"""Slot, part and shape of a sum."""


class Tally:
    """The measurements of a program.

    Args:
        name: prefix of the names of its states.
        requested: the metrics of the config.

    Attributes:
        metrics: by slot, the metrics that share a state on the device; known after tracing.
        slots: the slots, by the place where they are folded off the device.
        forms: the layout of the rows of each traced signature.
        batches: number of batches in the current period.
    """

    # `__slots__` hides the attributes from the guards of a traced step: with ten metrics they were 136 values, compared
    # before every step.
    __slots__ = (
        "_bad_step",
        "_checked",
        "_fields",
        "_first_nan",
        "_is_traced",
        "_large",
        "_small",
        "batches",
        "forms",
        "metrics",
        "name",
        "requested",
        "slots",
    )  # fmt: skip

    def __init__(self, name: str, requested: Sequence[RequestedMetric] = ()) -> None:
        self.name, self.requested = name, requested
        self.batches = State(np.zeros(()), f"{name}.batches", int64)
        self.metrics: dict[str, dict[str, Metric]] = {}
        self.slots: dict[str, dict[str, Slot]] = {}
        self.forms: list[Form] = []
        self._is_traced = False
        self._lay_out(())

    # --- in the traced step -------------------------------------------------------------------------------------------

    def add(self, returned: Any, step: Tensor, *, by: str, only_if: Tensor | None = None) -> Handed:
        """Adds what a step returned, inside the step; returns the rows to pass on after it.

        Args:
            returned: metrics and predictions by name, from the task's step named `by`.
            step: int64 scalar, recorded if something is not finite.
            only_if: a scalar; false: the step, or the shard, is ignored.

        Raises:
            TrainerError: a value does not fit its metric, or mixes rows of a batch with shards.
        """
        sums: dict[tuple[str, str], Tensor] = {}
        given: dict[tuple[str, str], Predictions] = {}
        nan: dict[tuple[int, str], Tensor] = {}
        rows: dict[str, dict[tuple[str, str], Tensor]] = {}
        for slot, sharing in _shared(measured_in(returned, self.requested, step=by)).items():
            measured = next(iter(sharing.values()))
            metrics = {name: one.metric for name, one in sharing.items()}
            part = measured.partial()
            of_task = part if measured.given is None else {**measured.given.roles, WEIGHT: measured.given.weight}
            check_rows([value.node for value in of_task.values()])
            for role in _floats(measured):
                assert measured.given is not None
                if (id(measured.given), role) not in nan:
                    given[slot, role] = measured.given
                    nan[id(measured.given), role] = _has_nan(measured.given, role, only_if)
            if measured.metric.folds_in == "device":
                self.metrics[slot] = metrics
                sums.update({(slot, name): value for name, value in part.items()})
                continue
            assert measured.given is not None
            weight = measured.given.weight
            if only_if is not None:
                weight = engine.where(only_if, weight, engine.zeros_like(weight))
            for role in _floats(measured):  # reported at the end of the period: in training the guards come first
                weight = engine.where(nan[id(measured.given), role], engine.zeros_like(weight), weight)
            self.slots.setdefault(measured.metric.folds_in, {})[slot] = Slot(metrics)
            place = rows.setdefault(measured.metric.folds_in, {})
            place.update({(slot, name): value for name, value in {**part, WEIGHT: weight}.items()})
        self._prepare_for(sums, given)
        self._add_up(sums, step, only_if)
        self._note_nan(list(nan.values()), step)
        self.batches.assign(self.batches + 1)
        return {place: self._packed(values) for place, values in rows.items()}

    def wants(self, role: str) -> bool:
        """Whether a metric of the config needs a role."""
        return any(role in one.metric.needs for one in self.requested)

    def check(self, returned: Any, *, by: str) -> None:
        """Raises the errors of `add` without computing anything.

        Raises:
            TrainerError: a metric can't be computed from what the step called `by` returned.
        """
        for measured in measured_in(returned, self.requested, step=by).values():
            measured.partial()

    def _prepare_for(self, sums: Mapping[tuple[str, str], Tensor], given: Mapping[tuple[str, str], Any]) -> None:
        fields = [(slot, part, tuple(value.shape)) for (slot, part), value in sums.items()]
        if fields != self._fields or list(given) != self._checked:
            if self._is_traced:
                raise TrainerError(
                    f"the sums of {self.name} have another shape in this batch than in others",
                    found=str(sorted(set(fields) ^ set(self._fields))),
                    expected="sums whose shapes do not depend on the batch; rows are for metrics derived from Rows",
                )
            self._lay_out(fields, list(given))
        self._is_traced = True

    def _add_up(self, sums: Mapping[tuple[str, str], Tensor], step: Tensor, only_if: Tensor | None) -> None:
        small = []
        for (slot, part), value in sums.items():
            added = value.astype(float64)
            if only_if is not None:
                added = engine.where(only_if, added, engine.zeros_like(added))
            added = engine.shard_sum(added)
            if (slot, part) in self._large:
                self._large[slot, part].assign(self._large[slot, part] + added)
            else:
                small.append(engine.reshape(added, (-1,)))
        if small:
            together = engine.concat(small)
            self._small.assign(self._small + together)
            is_first = engine.logical_and(self._bad_step == NEVER, engine.logical_not(engine.isfinite(together)))
            self._bad_step.assign(engine.where(is_first, step, self._bad_step))

    def _note_nan(self, nan: Sequence[Tensor], step: Tensor) -> None:
        """Records the first row with a NaN of each role; `nan` marks the rows with a NaN, bool [B] per role."""
        if not nan:
            return
        found = []
        for rows in nan:
            if shard_count() > 1:
                rows = engine.reshape(shard_gather(rows.astype(int32)), (-1,)) > 0
            row = engine.where(engine.any(rows), engine.argmax(rows.astype(int32)), NEVER).astype(int64)
            found.append(engine.stack([row, self.batches + 0, step.astype(int64)]))
        now = engine.stack(found)
        is_first = (self._first_nan[:, :1] == NEVER) & (now[:, :1] != NEVER)
        self._first_nan.assign(engine.where(is_first, now, self._first_nan))

    def _packed(self, rows: Mapping[tuple[str, str], Tensor]) -> dict[str, Any]:
        """Rows as one array per type, with the number of their form."""
        rows = {key: value.astype(float32) if value.dtype is bfloat16 else value for key, value in rows.items()}
        form = Form.of({key: (value.dtype.name, tuple(value.shape)) for key, value in rows.items()})
        if form not in self.forms:
            self.forms.append(form)
        by_type: dict[str, list[Tensor]] = {}
        for value in rows.values():
            by_type.setdefault(value.dtype.name, []).append(engine.reshape(value, (-1,)))
        packed = {name: engine.concat(values) for name, values in by_type.items()}
        return {"form": f"{self.forms.index(form)}", **packed}

    # --- between steps ------------------------------------------------------------------------------------------------

    def states(self, read: Read = State.numpy) -> Mapping[str, Arrays]:
        """The accumulated sums, by slot."""
        small, start = read(self._small), 0
        found: dict[str, dict[str, np.ndarray]] = {slot: {} for slot in self.metrics}
        for slot, part, shape in self._fields:
            if (slot, part) in self._large:
                found[slot][part] = read(self._large[slot, part])
            else:
                end = start + math.prod(shape)
                found[slot][part] = small[start:end].reshape(shape)
                start = end
        return found

    def first_nan(self, read: Read = State.numpy) -> tuple[str, int, int] | None:
        """(role, batch of the period, row) of the earliest NaN in the inputs of sums, or None."""
        noted = read(self._first_nan)
        bad = np.flatnonzero(noted[:, 0] != NEVER)
        if not len(bad):
            return None
        first = int(bad[np.argmin(noted[bad, 1])])
        return self._checked[first][1], int(noted[first, 1]), int(noted[first, 0])

    def first_not_finite(self, read: Read = State.numpy) -> tuple[str, int] | None:
        """(metric, step) of the earliest sum that was not finite or was computed from a NaN, or None.

        Within a step, a sum (the loss, say) is more informative than the input of another metric.
        """
        nan = [(int(step), f"{slot} (its {role})")
               for (slot, role), (row, _, step) in zip(self._checked, read(self._first_nan), strict=True)
               if row != NEVER]  # fmt: skip
        sums = self._first_bad_sum(read)
        found = [*([] if sums is None else [sums[::-1]]), *nan]
        if not found:
            return None
        step, name = min(found, key=lambda one: one[0])
        return name, step

    def _first_bad_sum(self, read: Read) -> tuple[str, int] | None:
        steps = read(self._bad_step)
        bad = np.flatnonzero(steps != NEVER)
        if not len(bad):
            return None
        first = int(bad[np.argmin(steps[bad])])
        owners = [slot for slot, part, shape in self._fields if (slot, part) not in self._large
                  for _ in range(math.prod(shape))]  # fmt: skip
        return owners[first], int(steps[first])

    def reset(self) -> None:
        """Starts a new period."""
        for state in (self._small, *self._large.values(), self.batches):
            state.set_value(np.zeros(state.shape))
        for state in (self._bad_step, self._first_nan):
            state.set_value(np.full(state.shape, NEVER))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """The form of the states: the argument of `prepare`."""
        fields = [[slot, part, list(shape)] for slot, part, shape in self._fields]
        return {"fields": fields, "checked": [list(key) for key in self._checked]}

    def prepare(self, description: Mapping[str, Any]) -> None:
        """Creates the states of sums before the first step, so that they can be restored from a checkpoint."""
        fields = [(slot, part, tuple(shape)) for slot, part, shape in description["fields"]]
        checked = [(slot, role) for slot, role in description["checked"]]
        if fields != self._fields or checked != self._checked:
            self._lay_out(fields, checked)

    def named_states(self) -> dict[str, State]:
        """The states of sums by name, for a checkpoint."""
        states = self.batches, self._small, self._bad_step, self._first_nan, *self._large.values()
        return {state.name: state for state in states}

    def _lay_out(self, fields: Sequence[Field], checked: Sequence[tuple[str, str]] = ()) -> None:
        self._fields, self._checked = list(fields), list(checked)
        self._first_nan = State(np.full((len(checked), 3), NEVER), f"{self.name}.first_nan", int64)
        large = [field for field in fields if math.prod(field[2]) > LARGE]
        size = sum(math.prod(shape) for _, _, shape in fields) - sum(math.prod(shape) for _, _, shape in large)
        self._small = State(np.zeros(size), f"{self.name}.sums", float64)
        self._bad_step = State(np.full(size, NEVER), f"{self.name}.first_bad_step", int64)
        self._large = {(slot, part): State(np.zeros(shape), f"{self.name}.{slot}.{part}", float64)
                       for slot, part, shape in large}  # fmt: skip


def _floats(measured: Measured) -> list[str]:
    """The floating-point roles from which a metric is computed."""
    given = measured.given
    needs = [] if given is None else [role for need in measured.metric.needs for role in need.split("|")]
    return [role for role in needs if given is not None and role in given and given[role].dtype.is_float]


def _has_nan(given: Predictions, role: str, only_if: Tensor | None) -> Tensor:
    """Marks the rows that have weight and contain a NaN, bool [B]."""
    is_nan = engine.any(engine.isnan(engine.reshape(given[role], (given.rows, -1))), axis=1)
    counts = given.weight > 0
    return is_nan & (counts if only_if is None else counts & only_if)


def _shared(measured: Mapping[str, Measured]) -> dict[str, dict[str, Measured]]:
    """The metrics by slot: metrics with a common state together, under the name of the first."""
    slots: dict[str, dict[str, Measured]] = {}
    known: dict[Any, str] = {}
    for name, one in measured.items():
        key = one.metric.state_key()
        slot = name if key is None else known.setdefault((key, id(one.given)), name)
        slots.setdefault(slot, {})[name] = one
    return slots

"""Metrics of rows: all predictions of the split are kept, off the device, and evaluated together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from trainer.metrics.metric import WEIGHT, Metric, Part, Place, State


class Columns(Mapping[str, np.ndarray]):
    """Arrays by name that grow along their first axis; appending costs only the appended rows."""

    def __init__(self, columns: Mapping[str, np.ndarray] | None = None) -> None:
        self._memory = dict(columns or {})
        self._length = len(next(iter(self._memory.values()))) if self._memory else 0

    def append(self, rows: Mapping[str, np.ndarray]) -> None:
        """Appends rows, the same number to each column."""
        count = len(next(iter(rows.values())))
        end = self._length + count
        for name, values in rows.items():
            memory = self._memory.get(name)
            if memory is None or len(memory) < end:
                grown = np.empty((max(end, 2 * self._length), *values.shape[1:]), values.dtype)
                if memory is not None:
                    grown[: self._length] = memory[: self._length]
                self._memory[name] = memory = grown
            memory[self._length : end] = values
        self._length = end

    def __getitem__(self, name: str) -> np.ndarray:
        return self._memory[name][: self._length]

    def __iter__(self) -> Iterator[str]:
        return iter(self._memory)

    def __len__(self) -> int:
        return len(self._memory)


class Rows(Metric):
    """A metric whose parts are rows, arrays [B, ...]; `values` receives those of all batches, and "weight" [N].

    Rows of weight 0 are dropped. Their order depends on the batches, so `values` must not depend on it.
    """

    folds_in: Place = "worker"

    def fold(self, state: State, part: Part) -> State:
        columns = state if isinstance(state, Columns) else Columns(state)
        counts = part[WEIGHT] != 0
        columns.append({name: values if counts.all() else values[counts] for name, values in part.items()})
        return columns

    def merge(self, one: State, other: State) -> State:
        if not one or not other:
            return one or other
        columns = one if isinstance(one, Columns) else Columns(one)
        columns.append(other)
        return columns

    def restored(self, state: State) -> State:
        return Columns(state)

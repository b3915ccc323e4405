"""Metrics summed up on the device: the sums of each are added to inside the traced step and read when logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trainer import engine
from trainer.engine import State, Tensor, float64, int64
from trainer.metrics import Metric

NEVER = -1


class _Sums:
    """The accumulated sums of one metric, and the first step at which one of them was not finite."""

    def __init__(self, at: str, parts: Sequence[str]) -> None:
        self.parts = {part: State(np.zeros(()), f"{at}.{part}", float64) for part in parts}
        self.first_bad_step = State(np.asarray(NEVER), f"{at}.first_bad_step", int64)
        self.kind: type[Metric] | None = None

    @property
    def states(self) -> list[State]:
        return [*self.parts.values(), self.first_bad_step]


class Accumulators:
    """The sums of a split's metrics, by the metrics' names."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._sums: dict[str, _Sums] = {}

    def add(self, metrics: Mapping[str, Metric], step: Tensor, *, only_if: Tensor | None = None) -> None:
        """Add a batch's metrics, inside the traced step; `step` (int64 scalar) is noted where one is not finite.

        A step of which `only_if` (a scalar) is false counts for nothing.
        """
        for name, metric in metrics.items():
            partial = metric.partial()
            sums = self._make(name, list(partial))
            sums.kind = type(metric)
            is_finite = engine.asarray(True)
            for part, value in partial.items():
                added = value.astype(float64)
                if only_if is not None:
                    added = engine.where(only_if, added, engine.zeros_like(added))
                sums.parts[part].assign(sums.parts[part] + added)
                is_finite = engine.logical_and(is_finite, engine.isfinite(added))
            is_first = engine.logical_and(sums.first_bad_step == NEVER, engine.logical_not(is_finite))
            sums.first_bad_step.assign(engine.where(is_first, step, sums.first_bad_step))

    def values(self) -> dict[str, float]:
        """Each metric's value so far. Waits for the steps that are under way."""
        return {
            name: float(sums.kind.finish({part: state.item() for part, state in sums.parts.items()}))
            for name, sums in self._sums.items()
            if sums.kind is not None
        }

    def first_not_finite(self) -> tuple[str, int] | None:
        """(metric, step) of the earliest sum that was not finite, or None."""
        steps = [(int(sums.first_bad_step.item()), name) for name, sums in self._sums.items()]
        step, name = min((found for found in steps if found[0] != NEVER), default=(NEVER, ""))
        return None if step == NEVER else (name, step)

    def reset(self) -> None:
        """Begin anew."""
        for sums in self._sums.values():
            for state in sums.parts.values():
                state.set_value(np.zeros(()))
            sums.first_bad_step.set_value(np.asarray(NEVER))

    def describe(self) -> dict[str, list[str]]:
        """The names of each metric's sums: what `prepare` takes."""
        return {name: list(sums.parts) for name, sums in self._sums.items()}

    def prepare(self, description: Mapping[str, Sequence[str]]) -> None:
        """Make the states before the first step, so that they can be restored from a checkpoint."""
        for name, parts in description.items():
            self._make(name, parts)

    def named_states(self) -> dict[str, State]:
        """The states by name, for a checkpoint."""
        return {state.name: state for sums in self._sums.values() for state in sums.states}

    def _make(self, name: str, parts: Sequence[str]) -> _Sums:
        if name not in self._sums:
            self._sums[name] = _Sums(f"{self._prefix}.{name}", parts)
        return self._sums[name]

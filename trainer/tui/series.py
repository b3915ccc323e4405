"""One metric for the charts: steps, values and their running average, extended one value at a time."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right

SMOOTHING = 0.9
"""Weight of the past in the running average, as in the usual loss-curve viewers; corrected for its cold start."""


class Series:
    """A metric's values in the order of their steps.

    Three arrays of float64 of equal length; NumPy reads them through the buffer protocol (an array with a view can't
    grow: keep no view of one).

    Attributes:
        version: a number that changes with every modification.
        not_finite: number of non-finite values.
        lowest: the minimum of the running average; infinity without a finite value.
    """

    def __init__(self) -> None:
        self.steps: array[float] = array("d")
        self.values: array[float] = array("d")
        self.smoothed: array[float] = array("d")
        self.version = 0
        self.not_finite = 0
        self.lowest = math.inf
        self._average = 0.0
        self._weight = 0.0
        self._best: dict[str, tuple[int, tuple[float, float] | None]] = {}

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def last(self) -> float:
        """The latest value; nan when there is none."""
        return self.values[-1] if self.values else math.nan

    def append(self, step: float, value: float) -> None:
        """Adds one value; a second value for the same step replaces it. The average leaves out non-finite values."""
        if self.steps and self.steps[-1] == step:
            self.take_back(math.nextafter(step, -math.inf))
        if math.isfinite(value):
            self._average = SMOOTHING * self._average + (1 - SMOOTHING) * value
            self._weight = SMOOTHING * self._weight + (1 - SMOOTHING)
            self.lowest = min(self.lowest, self._average / self._weight)
        else:
            self.not_finite += 1
        self.steps.append(step)
        self.values.append(value)
        self.smoothed.append(self._average / self._weight if self._weight else math.nan)
        self.version += 1

    def take_back(self, from_step: float) -> None:
        """Drops everything above a step: a later attempt resumed there."""
        kept = bisect_right(self.steps, from_step)
        if kept == len(self.steps):
            return
        steps, values, version = self.steps[:kept], self.values[:kept], self.version
        self.__init__()  # type: ignore[misc]  # the average starts again with the remaining values
        for step, value in zip(steps, values, strict=True):
            self.append(step, value)
        self.version += version + 1

    def at(self, step: float) -> float | None:
        """The value of a step, or None."""
        index = bisect_right(self.steps, step) - 1
        return self.values[index] if index >= 0 and self.steps[index] == step else None

    def best(self, mode: str) -> tuple[float, float] | None:
        """Step and value of the best finite value so far, the earliest of equal ones; `mode` is min or max."""
        version, best = self._best.get(mode, (-1, None))
        if version != self.version:
            best = self._find_best(mode)
            self._best[mode] = self.version, best
        return best

    def _find_best(self, mode: str) -> tuple[float, float] | None:
        candidates = (pair for pair in zip(self.values, self.steps, strict=True) if math.isfinite(pair[0]))
        sign = 1 if mode == "min" else -1
        found = min(candidates, key=lambda pair: (sign * pair[0], pair[1]), default=None)
        return None if found is None else (found[1], found[0])

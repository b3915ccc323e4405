"""Scales columns of numbers to mean 0 and standard deviation 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scaling:
    """The mean and the standard deviation of each column, computed from the training rows only.

    All three fields are tuples of plain values, which a task stores as facts: `Scaling(*facts)` restores the scaling.
    """

    columns: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: np.ndarray) -> Scaling:
        """The scaling of float64 [N, columns]; a constant column is only centered."""
        deviations = np.where(np.ptp(rows, axis=0) == 0, 1, rows.std(axis=0))  # std of equal values may round above 0
        return cls(tuple(columns), tuple(rows.mean(axis=0).tolist()), tuple(deviations.tolist()))

    def scale(self, values: np.ndarray) -> np.ndarray:
        """Scales values [..., columns] to mean 0 and standard deviation 1 over the training rows; returns float32."""
        return ((values - np.array(self.means)) / np.array(self.deviations)).astype(np.float32)

    def unscale(self, values: np.ndarray) -> np.ndarray:
        """Converts scaled values [..., k] of the first k columns to their original units; returns float64."""
        count = values.shape[-1]
        return values * np.array(self.deviations[:count]) + np.array(self.means[:count])

"""How near two trainings ended, relative to how far they went."""

from __future__ import annotations

import numpy as np


def deviation(before: np.ndarray, after: np.ndarray, found: np.ndarray) -> float:
    """The norm of `found` - `after`, relative to that of `after` - `before`: 1 of what never moved, NaN of NaN."""
    moved = np.linalg.norm(after - before)
    assert moved > 0, "the training that is compared with changes nothing"
    return float(np.linalg.norm(found - after) / moved)

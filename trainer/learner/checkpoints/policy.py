"""Which checkpoints to delete, and whether a metric is the best so far: pure functions."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable


def superseded(steps: Iterable[int], keep_last: int, protected: Collection[int] = ()) -> list[int]:
    """The steps whose checkpoints may go: all but the `keep_last` highest and the `protected`."""
    ordered = sorted(steps)
    return [step for step in ordered[: max(0, len(ordered) - keep_last)] if step not in protected]


def is_better(value: float, best: float | None, mode: str) -> bool:
    """Whether `value` beats `best` (None: nothing so far); `mode` is max or min. NaN never does."""
    if math.isnan(value):
        return False
    if best is None:
        return True
    return value > best if mode == "max" else value < best

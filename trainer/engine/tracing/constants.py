"""Python values that a traced step keeps as constants, and their comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainer.engine.tensor import Tensor

PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
ARRAYS = (np.ndarray, Tensor)


def is_constant(value: Any) -> bool:
    """Whether a traced step keeps `value` as a constant: a plain value, an array, or a tensor that is not a state."""
    return isinstance(value, PLAIN) or (isinstance(value, ARRAYS) and not getattr(value, "is_state", False))


def is_same_value(before: Any, now: Any) -> bool:
    """Whether two plain values give a step the same constants: same type, 0.0 and -0.0 differ, NaN equals NaN."""
    if before is now:
        return True
    if type(before) is not type(now):
        return False
    if isinstance(before, float | complex | np.inexact):
        return repr(before) == repr(now)  # exact: the shortest digits that identify the number, and its sign
    if isinstance(before, np.generic):
        return before.dtype == now.dtype and before.tobytes() == now.tobytes()
    return bool(before == now)


def is_module(kind: type) -> bool:
    """Whether a class is an `nn.Module`, which this layer can't import."""
    return any(base.__module__ == "trainer.engine.nn.module" for base in kind.__mro__)

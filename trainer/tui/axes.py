"""Ranges of a chart's axes. They move in steps, so that a growing run redraws only the columns that are new."""

from __future__ import annotations

import math


def step_range(last: float) -> float:
    """The right end of the step axis for a run at step `last`: a round number, of which at least 8/9 is filled."""
    if last <= 8:
        return 8.0
    rough = last / 8
    power = 10.0 ** math.floor(math.log10(rough))
    unit = power * max(factor for factor in (1, 2, 5) if factor * power <= rough)
    return math.ceil(last / unit) * unit


def value_range(low: float, high: float) -> tuple[float, float]:
    """A range around [low, high] whose ends are round numbers; never empty.

    Ends lie on multiples of 1, 2 or 5 times a power of ten, about a quarter of the span.
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-30):
        margin = abs(low) / 2 or 1.0
        low, high = low - margin, high + margin
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    unit = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return math.floor(low / unit + 1e-9) * unit, math.ceil(high / unit - 1e-9) * unit

"""Ranges and ticks of a chart's axes. Ranges move in steps, so that a growing run redraws only new columns."""

from __future__ import annotations

import math


def step_range(last: float) -> float:
    """The right end of the step axis for a run at step `last`: a round number; above step 8, at least 8/9 is used."""
    if last <= 8:
        return 8.0
    rough = last / 8
    power = 10.0 ** math.floor(math.log10(rough))
    unit = power * max(factor for factor in (1, 2, 5) if factor * power <= rough)
    return math.ceil(last / unit) * unit


def value_range(low: float, high: float, parts: int = 4) -> tuple[float, float]:
    """A range around [low, high] whose ends are round numbers; never empty.

    The ends are multiples of a unit of about the span divided by `parts`: 1, 2 or 5 times a power of ten.
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-30):
        margin = abs(low) / 2 or 1.0
        low, high = low - margin, high + margin
    rough = (high - low) / parts
    power = 10.0 ** math.floor(math.log10(rough))
    unit = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return math.floor(low / unit + 1e-9) * unit, math.ceil(high / unit - 1e-9) * unit


def ticks(low: float, high: float, count: int) -> list[float]:
    """At least `count` round numbers in [low, high], in order: multiples of the largest 1, 2 or 5 times a power of ten.

    The list has at most about two and a half times `count` numbers.
    """
    count = max(2, count)
    power = 10.0 ** math.ceil(math.log10(high - low))
    while True:
        for factor in (1, 0.5, 0.2):
            unit = factor * power
            first, last = math.ceil(low / unit - 1e-9), math.floor(high / unit + 1e-9)
            if last - first + 1 >= count:
                return [number * unit for number in range(first, last + 1)]
        power /= 10


def log_ticks(low: float, high: float, count: int) -> list[float]:
    """The ticks of a logarithmic axis between 10**low and 10**high: the powers of ten, or more if those are too few.

    Returns:
        The values, not their logarithms.
    """
    for factors in ((1,), (1, 2, 5), range(1, 10)):
        decades = range(math.floor(low), math.ceil(high) + 1)
        values = [factor * 10.0**decade for decade in decades for factor in factors]
        shown = [value for value in values if low - 1e-9 <= math.log10(value) <= high + 1e-9]
        if len(shown) >= max(2, count):
            return shown
    return ticks(10.0**low, 10.0**high, count)

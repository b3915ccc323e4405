"""The range of values that a chart shows: all of them, or without the few that would flatten the rest."""

from __future__ import annotations

import numpy as np

from trainer.tui.raster import Floats

TAIL = 5.0
"""Percent of the values at each end that may lie outside of the fences."""

FENCE, LOG_FENCE = 1.5, 0.25
"""Distance of a fence from the tails, as a multiple of the distance between the tails: Tukey's factor, and a smaller
one for logarithms, which a learning rate that decays to zero would stretch to 1e-10."""

FEW, MANY = 8, 40
"""Fewer values than FEW have no outliers; below MANY, fences are FAR times as far away."""

FAR = 4.0

SAMPLED = 4096
"""Percentiles of a longer series are taken from evenly spaced values: precise enough for an axis."""


def full_range(values: Floats) -> tuple[float, float]:
    """Minimum and maximum of finite values [n], n > 0."""
    return float(values.min()), float(values.max())


def tails(values: Floats) -> tuple[float, float]:
    """The two values below and above which TAIL percent of the values [n], n > 0, lie."""
    if len(values) < FEW:
        return full_range(values)
    sample = np.sort(values[:: -(-len(values) // SAMPLED)])
    place = (len(sample) - 1) * TAIL / 100
    # the inner neighbor, so that one outlier among ten values does not move its own fence
    return float(sample[int(np.ceil(place))]), float(sample[len(sample) - 1 - int(np.ceil(place))])


def robust_range(values: Floats, fence: float = FENCE) -> tuple[float, float]:
    """Minimum and maximum of the finite values [n], n > 0, that lie within the fences.

    The losses of the first steps are typical outliers: with them, the rest of the curve would be a flat line.
    """
    low, high = full_range(values)
    if len(values) < FEW:
        return low, high
    lower, upper = tails(values)
    distance = fence * (upper - lower) * (FAR if len(values) < MANY else 1.0)
    if distance <= 0 or (low >= lower - distance and high <= upper + distance):
        return low, high
    inside = values[(values >= lower - distance) & (values <= upper + distance)]
    return full_range(inside)

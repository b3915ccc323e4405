"""The values of a chart: its scale, its range of values and steps, and the value of each line at a step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from trainer.tui.axes import step_range, value_range
from trainer.tui.charts import Chart, Layer, Smoothing
from trainer.tui.ranges import FENCE, LOG_FENCE, full_range, robust_range, tails
from trainer.tui.raster import Floats, running_average

LOG_PARTS = 8
"""The ends of a logarithmic axis are rounded less: half an empty decade is a large part of a chart."""

DECADES = 1.3
"""An automatic scale is logarithmic if the chart's values span this many powers of ten."""

MAX_PLOTS = 32
"""Maximum number of remembered charts, more than a screen shows."""

Item = TypeVar("Item")

_limits: OrderedDict[tuple[object, ...], tuple[Chart, tuple[float, float]]] = OrderedDict()

_scales: OrderedDict[tuple[object, ...], tuple[Chart, bool]] = OrderedDict()


def identity(chart: Chart) -> tuple[object, ...]:
    """The values that a chart's drawing depends on, except for its cross-hair, which moves while the rest stays."""
    window = chart.window._replace(cursor=None)
    layers = tuple((layer.look, layer.role, layer.mark, id(layer.series), layer.series.version)
                   for layer in chart.layers)  # fmt: skip
    return chart.best, chart.log_scale, window, layers


def remembered(
    memory: OrderedDict[tuple[object, ...], Item], key: tuple[object, ...], make: Callable[[], Item]
) -> Item:
    """The item of a key, created at its first use; the least recently used items are dropped."""
    if key not in memory:
        memory[key] = make()
        while len(memory) > MAX_PLOTS:
            memory.popitem(last=False)
    memory.move_to_end(key)
    return memory[key]


def resolved(chart: Chart) -> Chart:
    """The chart with an automatic scale resolved: logarithmic if its values span DECADES powers of ten."""
    if chart.log_scale is not None:
        return chart
    _, is_log = remembered(_scales, identity(chart), lambda: (chart, _spans_decades(chart)))
    return chart._replace(log_scale=is_log)


def _spans_decades(chart: Chart) -> bool:
    linear = chart._replace(log_scale=False)
    both = []
    for layer in labeled(linear):
        values = finite(values_of(layer, linear)[1], layer, linear)
        both += [tails(values)] if len(values) else []
    low, high = min((low for low, _ in both), default=0.0), max((high for _, high in both), default=0.0)
    return low > 0 and math.log10(high / low) >= DECADES - 1e-9


def labeled(chart: Chart) -> list[Layer]:
    """One layer for each name: the line rather than the points, the running average rather than the values."""
    found: dict[str, Layer] = {}
    for layer in chart.layers:
        known = found.get(layer.name)
        if known is None or known.look == "raw" or (known.look == "points" and layer.look != "raw"):
            found[layer.name] = layer
    return list(found.values())


def shown_steps(chart: Chart) -> tuple[float, float]:
    """The steps at the edges of the chart."""
    window = chart.window
    if window.end is not None:
        return window.start, window.end
    return window.start, step_range(max((layer.series.steps[-1] for layer in chart.layers if len(layer.series)),
                                        default=0.0))  # fmt: skip


def values_at(chart: Chart, step: float) -> list[tuple[Layer, float]]:
    """The value of each line at its last step up to `step`; lines that begin later are left out."""
    found = []
    for layer in chart.layers:
        value = None if layer.look == "points" else value_at(layer, chart, step)
        if value is not None:
            found.append((layer, value))
    return found


def value_at(layer: Layer, chart: Chart, step: float) -> float | None:
    index = bisect_right(layer.series.steps, step) - 1
    if index < 0:
        return None
    values = layer.series.smoothed if layer.look == "smoothed" else layer.series.values
    return values[index]


def values_of(layer: Layer, chart: Chart) -> tuple[Floats, Floats]:
    """Steps and values of a layer, logarithms on a logarithmic scale. They are views: do not keep them."""
    x, y = np.asarray(layer.series.steps), _smoothed(layer, chart.window.smoothing)
    if chart.log_scale:
        y = np.log10(y, out=np.full(len(y), np.nan), where=y > 0)
    return x, y


def finite(values: Floats, layer: Layer, chart: Chart) -> Floats:
    """The finite values of a layer; not a copy if all are known to be finite."""
    return values[np.isfinite(values)] if layer.series.not_finite or chart.log_scale else values


def scaled(value: float, chart: Chart) -> float:
    """A value's position on the axis; nan if it has none on a logarithmic scale."""
    return value if not chart.log_scale else math.log10(value) if value > 0 else math.nan


def _smoothed(layer: Layer, smoothing: Smoothing) -> Floats:
    if layer.look != "smoothed" or smoothing == "none":
        return np.asarray(layer.series.values)
    if smoothing == "0.9":  # a series keeps this average as it grows
        return np.asarray(layer.series.smoothed)
    return running_average(np.asarray(layer.series.values), float(smoothing))


def limits_of(chart: Chart, start: float, end: float) -> tuple[float, float]:
    """The values at the bottom and at the top of the chart."""
    return remembered(_limits, (identity(chart), start, end), lambda: (chart, _found_limits(chart, start, end)))[1]


def _found_limits(chart: Chart, start: float, end: float) -> tuple[float, float]:
    lows, highs = [], []
    for layer in chart.layers:
        x, y = values_of(layer, chart)
        if chart.window.end is not None:
            y = y[(x >= start) & (x <= end)]
        y = finite(y, layer, chart)
        if len(y):
            fence = LOG_FENCE if chart.log_scale else FENCE
            low, high = robust_range(y, fence) if chart.window.is_robust else full_range(y)
            lows.append(low)
            highs.append(high)
    parts = LOG_PARTS if chart.log_scale else 4
    return value_range(min(lows, default=math.nan), max(highs, default=math.nan), parts)

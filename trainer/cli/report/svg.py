"""Curves as SVG: axes with round numbers, one path per series, thinned to the resolution of the width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from trainer.tui.axes import step_range, value_range
from trainer.tui.numbers import number
from trainer.tui.raster import reduce_columns

WIDTH = 480
HEIGHT = {False: 210, True: 270}
"""Heights of a chart among others, and of one at the top; in units that are pixels at the usual width."""

RIGHT, TOP, BOTTOM = 12, 12, 26
CHARACTER = 6.6
"""Maximum width of a digit in a label."""

COLUMNS = WIDTH - 40
TICKS, MOST_DECADES = 4, 2.5


@dataclass(frozen=True)
class Curve:
    """A series and its style, a class of the page's style sheet. With `has_points`, each value gets a mark."""

    label: str
    steps: Sequence[float]
    values: Sequence[float]
    style: str
    has_points: bool = False


@dataclass(frozen=True)
class _Axes:
    """The ranges of a drawing, its left margin and its height."""

    bottom: float
    top: float
    end: float
    left: float
    height: int

    def across(self, step: float) -> float:
        return self.left + step / self.end * (WIDTH - self.left - RIGHT)

    def down(self, value: float) -> float:
        return TOP + (self.top - value) / (self.top - self.bottom) * (self.height - TOP - BOTTOM)


def chart(
    curves: Sequence[Curve], *, log_scale: bool = False, is_large: bool = False, best: tuple[float, float] | None = None
) -> str:
    """The curves over steps, in one SVG element; `best` is a step and a value to mark. Empty without a value."""
    end = step_range(max((float(curve.steps[-1]) for curve in curves if len(curve.steps)), default=0.0))
    return _drawing(curves, end, "step", log_scale=log_scale, is_large=is_large, best=best)


def diagram(curves: Sequence[Curve]) -> str:
    """Curves over a quantity other than steps, from 0. Empty without a value."""
    return _drawing(curves, max((float(max(curve.steps)) for curve in curves if len(curve.steps)), default=1.0))


def _drawing(
    curves: Sequence[Curve], end: float, unit: str = "", *, log_scale: bool = False, is_large: bool = False,
    best: tuple[float, float] | None = None,
) -> str:  # fmt: skip
    scaled = [(curve, *_scaled(curve, log_scale)) for curve in curves]
    finite = np.concatenate([y[np.isfinite(y)] for _, _, y in scaled]) if scaled else np.empty(0)
    if not len(finite):
        return ""
    values = (_decades if log_scale else _even)(float(finite.min()), float(finite.max()))
    bottom, top = values[0], values[-1]
    labels = [_label(value, top - bottom, log_scale) for value in values]
    left = max(max(map(len, labels)) * CHARACTER + 8, len(unit) * CHARACTER + 14)
    axes = _Axes(bottom, top, end, left, HEIGHT[is_large])
    names = escape(", ".join(curve.label for curve in curves), quote=True)
    parts = [f'<svg viewBox="0 0 {WIDTH} {axes.height}" role="img" aria-label="{names}">']
    parts += _grid(axes, values, labels, unit)
    for curve, x, y in scaled:
        parts += _drawn(curve, x, y, axes)
    if best is not None and (best[1] > 0 or not log_scale):
        value = math.log10(best[1]) if log_scale else best[1]
        parts.append(
            f'<circle class="best" r="5" cx="{axes.across(best[0]):.1f}" cy="{axes.down(value):.1f}">'
            f"<title>best: {number(best[1])} at step {best[0]:g}</title></circle>"
        )
    return "".join([*parts, "</svg>"])


def _scaled(curve: Curve, log_scale: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = np.asarray(curve.steps, np.float64), np.asarray(curve.values, np.float64)
    return x, np.log10(y, out=np.full(len(y), np.nan), where=y > 0) if log_scale else y


def _even(low: float, high: float) -> list[float]:
    """Evenly spaced ticks around a range."""
    bottom, top = value_range(low, high)
    return [bottom + (top - bottom) * tick / TICKS for tick in range(TICKS + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic scale around a range of exponents: powers of ten; if few, also 2 and 5 times those."""
    factors = (1, 2, 5) if high - low < MOST_DECADES else (1,)
    powers = range(math.floor(low), math.ceil(high) + 2)
    ticks = [power + math.log10(factor) for power in powers for factor in factors]
    below = max(index for index, tick in enumerate(ticks) if tick <= low + 1e-9)
    above = min(index for index, tick in enumerate(ticks) if tick >= high - 1e-9 and index > below)
    return ticks[below : above + 1]


def _label(value: float, span: float, log_scale: bool) -> str:
    return number(10.0**value if log_scale else value if abs(value) > 1e-9 * span else 0.0)


def _grid(axes: _Axes, values: Sequence[float], labels: Sequence[str], unit: str) -> list[str]:
    """Lines and labels. The last label of the horizontal axis ends at the edge, so that nothing is cut off."""
    parts = []
    for value, label in zip(values, labels, strict=True):
        y = axes.down(value)
        parts.append(f'<line class="grid" x1="{axes.left:.1f}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{axes.left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for tick in range(TICKS + 1):
        step = axes.end * tick / TICKS
        x, anchor = (WIDTH - 2, "end") if tick == TICKS else (axes.across(step), "middle")
        parts.append(f'<text x="{x:.1f}" y="{axes.height - 8}" text-anchor="{anchor}">{number(step)}</text>')
    if unit:
        parts.append(f'<text x="{axes.left - 12:.1f}" y="{axes.height - 8}" text-anchor="end">{unit}</text>')
    return parts


def _drawn(curve: Curve, x: NDArray[np.float64], y: NDArray[np.float64], axes: _Axes) -> list[str]:
    """The curve: all its points if they are few, otherwise the range of values in each column of the picture."""
    if len(x) <= 2 * COLUMNS:
        points = list(zip(x.tolist(), y.tolist(), strict=True))
    else:
        columns = reduce_columns(x, y, 0.0, axes.end, COLUMNS)
        width = axes.end / COLUMNS
        points = []
        for column in np.flatnonzero(np.isfinite(columns.low)).tolist():
            at = (column + 0.5) * width
            points += [(at, columns.low[column]), (at, columns.high[column])]
    path, is_joined = [], False
    for step, value in points:
        if math.isfinite(value):
            path.append(f"{'L' if is_joined else 'M'}{axes.across(step):.1f} {axes.down(value):.1f}")
        is_joined = math.isfinite(value)  # a value that is not finite is a gap
    parts = [f'<path class="{curve.style}" d="{"".join(path)}"><title>{escape(curve.label)}</title></path>']
    if (curve.has_points and len(points) <= COLUMNS // 2) or len(points) == 1:
        parts += [
            f'<circle class="{curve.style}" r="2.5" cx="{axes.across(step):.1f}" cy="{axes.down(value):.1f}">'
            f"<title>{escape(curve.label)} {number(value)} at step {step:g}</title></circle>"
            for step, value in points
            if math.isfinite(value)
        ]
    return parts

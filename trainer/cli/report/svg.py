"""Curves as SVG: axes with round numbers, one path a series, thinned to what the width can show."""

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

WIDTH, HEIGHT = 560, 240
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 10, 26
COLUMNS = WIDTH - LEFT - RIGHT
TICKS = 4


@dataclass(frozen=True)
class Curve:
    """A series and its look; `style` is a class of the page's style sheet. Points get a mark each, lines don't."""

    label: str
    steps: Sequence[float]
    values: Sequence[float]
    style: str
    has_points: bool = False


def chart(curves: Sequence[Curve], *, log_scale: bool = False) -> str:
    """The curves over steps, in one SVG element."""
    end = step_range(max((float(curve.steps[-1]) for curve in curves if len(curve.steps)), default=0.0))
    return _drawing(curves, end, log_scale=log_scale)


def diagram(curves: Sequence[Curve]) -> str:
    """Curves over something else than steps, which begins at 0."""
    return _drawing(curves, max((float(max(curve.steps)) for curve in curves if len(curve.steps)), default=1.0))


def _drawing(curves: Sequence[Curve], end: float, *, log_scale: bool = False) -> str:
    scaled = [(curve, *_scaled(curve, log_scale)) for curve in curves]
    finite = np.concatenate([y[np.isfinite(y)] for _, _, y in scaled])
    if not len(finite):
        return '<p class="quiet">no finite values</p>'
    bottom, top = value_range(float(finite.min()), float(finite.max()))
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', *_axes(bottom, top, end, log_scale)]
    for curve, x, y in scaled:
        parts += _drawn(curve, x, y, bottom, top, end)
    return "".join([*parts, "</svg>"])


def _scaled(curve: Curve, log_scale: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = np.asarray(curve.steps, np.float64), np.asarray(curve.values, np.float64)
    return x, np.log10(y, out=np.full(len(y), np.nan), where=y > 0) if log_scale else y


def _across(step: float, end: float) -> float:
    return LEFT + step / end * COLUMNS


def _down(value: float, bottom: float, top: float) -> float:
    return TOP + (top - value) / (top - bottom) * (HEIGHT - TOP - BOTTOM)


def _axes(bottom: float, top: float, end: float, log_scale: bool) -> list[str]:
    parts = []
    for tick in range(TICKS + 1):
        value = bottom + (top - bottom) * tick / TICKS
        y = _down(value, bottom, top)
        label = number(10.0**value if log_scale else value if abs(value) > 1e-9 * (top - bottom) else 0.0)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
        step = end * tick / TICKS
        parts.append(f'<text x="{_across(step, end):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{number(step)}</text>')
    return parts


def _drawn(
    curve: Curve, x: NDArray[np.float64], y: NDArray[np.float64], bottom: float, top: float, end: float
) -> list[str]:
    """The curve: all its points while they are few, else the range of each column of the picture."""
    if len(x) <= 2 * COLUMNS:
        points = list(zip(x.tolist(), y.tolist(), strict=True))
    else:
        columns = reduce_columns(x, y, 0.0, end, COLUMNS)
        width = end / COLUMNS
        points = []
        for column in np.flatnonzero(np.isfinite(columns.low)).tolist():
            at = (column + 0.5) * width
            points += [(at, columns.low[column]), (at, columns.high[column])]
    path, is_joined = [], False
    for step, value in points:
        if math.isfinite(value):
            path.append(f"{'L' if is_joined else 'M'}{_across(step, end):.1f} {_down(value, bottom, top):.1f}")
        is_joined = math.isfinite(value)  # a value that is not finite is a gap
    parts = [f'<path class="{curve.style}" d="{"".join(path)}"><title>{escape(curve.label)}</title></path>']
    if curve.has_points and len(points) <= COLUMNS // 2:
        parts += [
            f'<circle class="{curve.style}" r="2.5" cx="{_across(step, end):.1f}" cy="{_down(value, bottom, top):.1f}">'
            f"<title>{escape(curve.label)} {number(value)} at step {step:g}</title></circle>"
            for step, value in points
            if math.isfinite(value)
        ]
    return parts

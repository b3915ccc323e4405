"""A sweep as one web page or as Markdown: best trial, best value over trials, parameter importance, all trials."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from trainer.cli.output import escape_controls
from trainer.cli.report.html import table
from trainer.cli.report.markdown import markdown_table, markdown_text
from trainer.cli.report.page import document
from trainer.cli.report.svg import Curve, diagram
from trainer.rundir.sweeps import COMPLETE, FAILED, PRUNED, RUNNING, SweepPaths, SweepState, Trial
from trainer.tui.numbers import number

WIDTH, HEIGHT, MARGIN, TOP = 960, 360, 70, 40
BAR = 260
GOOD, BAD = (0, 114, 178), (204, 207, 212)
"""Colors of the best and the worst trial; the others are interpolated by rank."""


def sweep_page(paths: SweepPaths, state: SweepState) -> str:
    """The whole page as HTML."""
    sections = {
        "": _head(paths, state),
        "Best so far": best_so_far(state),
        "Parameters and metric": parallel_coordinates(state),
        "Importance of the parameters": _importance(state),
        "Trials": table(*_rows(state)),
    }
    body = [
        f"<section><h2>{escape(title)}</h2>{content}</section>" if title else content
        for title, content in sections.items()
        if content
    ]
    return escape_controls(document(paths.root.name, body))


def sweep_markdown(paths: SweepPaths, state: SweepState) -> str:
    """The same numbers as Markdown."""
    header, rows = _rows(state)
    parts = [f"# {markdown_text(paths.root.name)}", markdown_text(_facts(state)), markdown_table(header, rows)]
    if state.importance:
        parts.append(markdown_table(("parameter", "importance"), list(state.importance.items())))
    return escape_controls("\n\n".join(parts) + "\n")


def _facts(state: SweepState) -> str:
    counts = [f"{state.count(name)} {name}" for name in (COMPLETE, PRUNED, FAILED, RUNNING) if state.count(name)]
    return f"{state.method}, {len(state.trials)} of {state.total} trials: {', '.join(counts) or 'none yet'}"


def _head(paths: SweepPaths, state: SweepState) -> str:
    parts = [f'<h1>{escape(paths.root.name)}</h1><p class="quiet">{escape(_facts(state))}</p>']
    if (best := state.best) is not None and best.value is not None:
        values = ", ".join(f"{name} {_word(value)}" for name, value in best.parameters.items())
        parts.append(
            f'<div class="figures"><p class="figure"><b>{number(best.value)}</b>{escape(state.metric)}<br>'
            f'<span class="quiet">trial {best.number}: {escape(values)}</span></p></div>'
            f"<pre>trainer run {escape(str(paths.best))}</pre>"
        )
    return "".join(parts)


def _rows(state: SweepState) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The header and the rows of all trials: complete ones by their metric, then the others by number."""
    names = _names(state)
    ranked = state.ranked
    others = [trial for trial in state.trials if trial not in ranked]
    rows = [
        (trial.number, trial.state, trial.value, *(_plain(trial.parameters.get(name)) for name in names),
         trial.reason.partition("\n")[0] or None)
        for trial in (*ranked, *others)
    ]  # fmt: skip
    return ["trial", "state", state.metric, *names, "reason"], rows


def best_so_far(state: SweepState) -> str:
    """The metric of each trial as a point, and the best one so far as a line; empty without a complete trial."""
    course = state.course
    if not course:
        return ""
    trials = [(float(place), value) for place, value, _ in course]
    best = [(float(place), so_far) for place, _, so_far in course]
    line = [best[0]]
    for (_, before), (place, so_far) in itertools.pairwise(best):
        line += [(place, before), (place, so_far)]
    curves = [_curve("trial", trials, "points"), _curve("best so far", line, "c1")]
    key = "".join(f'<b class="{curve.style}">{curve.label}</b> ' for curve in curves)
    caption = f'<figcaption class="key">{escape(state.metric)} over trials {key}</figcaption>'
    return f'<figure class="diagram">{caption}{diagram(curves)}</figure>'


def _curve(label: str, points: Sequence[tuple[float, float]], style: str) -> Curve:
    return Curve(label, [x for x, _ in points], [y for _, y in points], style, has_points=style == "points")


def _importance(state: SweepState) -> str:
    """A bar for each parameter; empty without an estimate."""
    rows = []
    for name, share in state.importance.items():
        bar = f'<svg viewBox="0 0 {BAR} 12" style="width:{BAR}px"><rect width="{BAR * share:.1f}" height="12" '
        rows.append(
            f'<tr><td>{escape(name)}</td><td class="number">{share:.0%}</td>'
            f'<td>{bar}style="fill:rgb{GOOD}"/></svg></td></tr>'
        )
    note = '<p class="quiet">Fraction of the variation of the metric that each parameter explains (PED-ANOVA).</p>'
    return f"<table>{''.join(rows)}</table>{note}" if rows else ""


def parallel_coordinates(state: SweepState) -> str:
    """A vertical axis for each parameter and one for the metric, and a line for each complete trial, the best ones
    darkest and on top. Empty without a complete trial.
    """
    ranked = state.ranked
    if not ranked:
        return ""
    axes = [_Axis(name, [trial.parameters[name] for trial in ranked], name in state.logarithmic)
            for name in _names(state)]  # fmt: skip
    axes.append(_Axis(state.metric, [trial.value for trial in ranked], is_logarithmic=False))
    gap = (WIDTH - 2 * MARGIN) / max(1, len(axes) - 1)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="parallel coordinates of the trials">']
    for place, axis in enumerate(axes):
        x = MARGIN + gap * place
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - TOP}"/>')
        title = axis.name.rpartition(".")[2] if place < len(axes) - 1 else axis.name
        parts.append(f'<text x="{x:.1f}" y="{TOP - 20}" text-anchor="middle">{escape(title)}</text>')
    for rank, trial in reversed(list(enumerate(ranked))):
        points = " ".join(
            f"{MARGIN + gap * place:.1f},{_down(axis.height(value)):.1f}"
            for place, (axis, value) in enumerate(zip(axes, _values(trial, axes), strict=True))
        )
        share = rank / max(1, len(ranked) - 1)
        color = ",".join(str(round(good + (bad - good) * share)) for good, bad in zip(GOOD, BAD, strict=True))
        words = "\n".join(f"{axis.name} {_word(value)}" for axis, value in zip(axes, _values(trial, axes), strict=True))
        parts.append(
            f'<polyline points="{points}" style="fill:none;stroke:rgb({color});stroke-width:1.5">'
            f"<title>trial {trial.number}\n{escape(words)}</title></polyline>"
        )
    for place, axis in enumerate(axes):
        for height, label in axis.labels():
            x = MARGIN + gap * place + 5
            parts.append(f'<text class="over" x="{x:.1f}" y="{_down(height) + 4:.1f}">{escape(label)}</text>')
    return "".join([*parts, "</svg>"])


class _Axis:
    """An axis with heights from 0 to 1: numbers by their size, everything else in the order of appearance."""

    def __init__(self, name: str, values: Sequence[Any], is_logarithmic: bool) -> None:
        self.name, self._is_logarithmic = name, is_logarithmic
        self._kinds = list(dict.fromkeys(map(_word, values)))
        self._numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        self._is_number = len(self._numbers) == len(values)
        self._low, self._high = (
            (self._scaled(min(self._numbers)), self._scaled(max(self._numbers))) if self._is_number
            else (0.0, len(self._kinds) - 1.0)
        )  # fmt: skip

    def height(self, value: Any) -> float:
        """The height of a value; 0.5 if all are equal."""
        at = self._scaled(value) if self._is_number else float(self._kinds.index(_word(value)))
        return 0.5 if self._high == self._low else (at - self._low) / (self._high - self._low)

    def labels(self) -> list[tuple[float, str]]:
        """The minimum and maximum of numbers, or each distinct value of another kind, with its height."""
        values = [min(self._numbers), max(self._numbers)] if self._is_number else self._kinds
        return list({self.height(value): _word(value) for value in values}.items())

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self._is_logarithmic else float(value)


def _down(height: float) -> float:
    return HEIGHT - TOP - height * (HEIGHT - 2 * TOP)


def _values(trial: Trial, axes: Sequence[_Axis]) -> list[Any]:
    return [*(trial.parameters[axis.name] for axis in axes[:-1]), trial.value]


def _names(state: SweepState) -> list[str]:
    return list(dict.fromkeys(name for trial in state.trials for name in trial.parameters))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | None) and not isinstance(value, bool) else str(value)


def _word(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)

"""The sweep screen: its trials in a table, the best metric so far in a chart, and the importance of parameters."""

from __future__ import annotations

from collections.abc import Mapping

from trainer.rundir.sweeps import COMPLETE, FAILED, PRUNED, RUNNING, SweepState
from trainer.tui.charts import Chart, Layer
from trainer.tui.frame import Frame
from trainer.tui.listing import Column, Row, TableState, draw_table
from trainer.tui.numbers import number
from trainer.tui.panels.runs import short_keys
from trainer.tui.series import Series
from trainer.tui.text import Line, crop_line

MOST_NAME = 20
"""Maximum width of a parameter's name next to its bar; a longer name loses its beginning."""

_ROLES = {FAILED: "bad", RUNNING: "busy", PRUNED: "dim"}
_FIRST_PARAMETER_RANK = 2


def trial_columns(state: SweepState) -> list[Column]:
    """The columns of the table; if space is short, the last parameter is left out first."""
    names = short_keys(_names(state))
    return [
        Column("trial", is_number=True),
        Column("state"),
        Column(f"best {state.metric}", is_number=True, most=34),
        *(Column(name, is_number=True, rank=_FIRST_PARAMETER_RANK + at, most=24) for at, name in enumerate(names)),
        *([Column("reason", rank=1, most=60)] if any(trial.reason for trial in state.trials) else []),
    ]


def trial_rows(state: SweepState, text: str = "") -> list[Row]:
    """A row for each trial that contains `text`, with the trial as its item: complete trials by metric, then others.

    The best trial has a mark.
    """
    names, ranked = _names(state), state.ranked
    complete = {trial.number for trial in ranked}
    has_reasons = any(trial.reason for trial in state.trials)
    rows = []
    for trial in (*ranked, *(trial for trial in reversed(state.trials) if trial.number not in complete)):
        values = [trial.parameters.get(name) for name in names]
        cells = [str(trial.number), trial.state, "-" if trial.value is None else number(trial.value)]
        keys = [trial.number, trial.state, trial.value, *map(_key, values)]
        cells += map(_shown, values)
        if has_reasons:
            cells.append(trial.reason.partition("\n")[0])
            keys.append(trial.reason or None)
        mark = "*" if ranked and trial.number == ranked[0].number else ""
        rows.append(Row(tuple(cells), tuple(keys), _ROLES.get(trial.state, "text"), mark, trial))
    return [row for row in rows if text.lower() in "  ".join(row.cells).lower()]


def draw_trials(frame: Frame, width: int, height: int, state: SweepState | None, table: TableState, text: str
                ) -> list[Line]:  # fmt: skip
    """Draws the table of the trials."""
    if state is None:
        return [(("this run is not part of a sweep", "dim"),)]
    rows = trial_rows(state, text)
    if not rows:
        return [((f"no trial with {text!r}" if text else "no trial yet", "dim"),)]
    return draw_table(trial_columns(state), rows, table, width, height, frame.glyphs)


def summary(state: SweepState) -> str:
    """The method, and the number of trials in each state."""
    counts = [f"{state.count(name)} {name}" for name in (COMPLETE, RUNNING, PRUNED, FAILED) if state.count(name)]
    return "  ".join([state.method, f"{len(state.trials)} of {state.total} trials", ", ".join(counts)])


def best_so_far(state: SweepState) -> Chart | None:
    """The metric of each complete trial as a point over its number, and the best value so far as a line."""
    each, best = Series(), Series()
    for place, value, so_far in state.course:
        each.append(place, value)
        best.append(place, so_far)
    if not len(each):
        return None
    if state.trials[-1].number > best.steps[-1]:
        best.append(state.trials[-1].number, best.last)
    layers = (Layer("trial", each, "points", "train"), Layer("best so far", best, "line", "best"))
    return Chart(state.metric, layers, log_scale=False, unit="trial")


def draw_best_so_far(frame: Frame, width: int, height: int, chart: Chart | None) -> list[Line]:
    """Draws the chart."""
    if chart is None:
        return [(("no complete trial yet", "dim"),)]
    from trainer.tui.plot import draw_chart

    return draw_chart(chart, width, height, frame.glyphs)


def draw_importance(frame: Frame, width: int, height: int, importance: Mapping[str, float]) -> list[Line]:
    """A bar for each parameter: the fraction of the metric's variation that it explains."""
    if not importance:
        return [(("needs eight complete trials", "dim"),)]
    ellipsis = frame.glyphs.ellipsis
    names = dict(zip(importance, short_keys(list(importance)), strict=True))
    widest = min(MOST_NAME, max(map(len, names.values())))
    room = max(1, width - widest - 7)
    lines: list[Line] = []
    for key, share in sorted(importance.items(), key=lambda item: -item[1])[:height]:
        name = names[key] if len(names[key]) <= widest else ellipsis + names[key][1 - widest :]
        bar = frame.glyphs.bar_full * round(room * share)
        lines.append(crop_line(((f"{name:{widest}} ", "text"), (f"{share:4.0%} ", "strong"), (bar, "busy")),
                               width, ellipsis))  # fmt: skip
    return lines


def _names(state: SweepState) -> list[str]:
    return list(dict.fromkeys(name for trial in state.trials for name in trial.parameters))


def _shown(value: object) -> str:
    return "-" if value is None else number(value) if isinstance(value, float) else str(value)


def _key(value: object) -> tuple[int, float, str] | None:
    """A sort key that puts numbers before texts."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (0, float(value), "")
    return None if value is None else (1, 0.0, str(value))

"""The sections of the page, in order: a table of functions from the run to HTML."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape

from trainer.cli.report.html import folded, matrix, preformatted, table
from trainer.cli.report.pictures import samples, worst_items
from trainer.cli.report.source import METRIC_COLUMNS, Source, quantity, read_json
from trainer.cli.report.svg import Curve, chart, diagram
from trainer.rundir import (
    AutotuneEvent,
    BadItemEvent,
    CheckpointEvent,
    PhaseEvent,
    RanksEvent,
    ReportEvent,
    StepEvent,
    WarningEvent,
)
from trainer.tui.kernel_shares import shares_of
from trainer.tui.numbers import duration, number, size
from trainer.tui.reports import Report, report_of

MOST_LISTED = 200
"""Maximum rows of a table that grows with the run."""

LOG_SCALE_FROM = 50.0
"""A loss or a learning rate that spans at least this factor is drawn on a logarithmic scale."""


def head(source: Source) -> str:
    """The run's name and state, with the user's tags and note."""
    parts = [f'<h1>{escape(source.run.name)}</h1><p class="quiet">{escape(" · ".join(source.facts))}</p>']
    return "".join([*parts, *(f"<p>{escape(text)}</p>" for text in source.texts)])


def headline(source: Source) -> str:
    """The monitored metric: its best value, its value on the test split, and its curve; the loss next to it."""
    if not source.quantities:
        return ""
    figures = "".join(
        f'<p class="figure"><b>{number(value)}</b>{escape(name)}<br><span class="quiet">{escape(when)}</span></p>'
        for name, value, when in source.figures
    )
    groups = _groups(source)
    charts = "".join(_chart(source, one, groups[one], is_large=True) for one in source.quantities if one in groups)
    return f'<div class="figures">{figures}</div><div class="charts large">{charts}</div>'


def results(source: Source) -> str:
    """The last and the best value of each metric that has one, the most important metrics first."""
    rows = source.table
    if not rows:
        return ""
    hidden = len(source.run.metrics) - len(rows)
    more = f'<p class="quiet">{hidden} metrics without a finite value are left out</p>' if hidden else ""
    content = table(METRIC_COLUMNS, rows) + more
    return folded(f"{len(rows)} metrics, the last and the best value of each", content)


def curves(source: Source) -> str:
    """A chart for each metric that is not at the top: training, validation and averaged weights in one chart."""
    groups = {title: names for title, names in _groups(source).items() if title not in source.quantities}
    charts = [content for title, names in groups.items() if (content := _chart(source, title, names))]
    return folded(f"{len(charts)} more", f'<div class="charts">{"".join(charts)}</div>') if charts else ""


def _groups(source: Source) -> dict[str, list[str]]:
    """Names of training and validation metrics, by the quantity that they measure."""
    groups: dict[str, list[str]] = {}
    for name in sorted(source.metrics, key=lambda name: (not name.startswith("train/"), "/ema/" in name)):
        if name.partition("/")[0] in ("train", "valid"):
            groups.setdefault(quantity(name), []).append(name)
    return groups


def _chart(source: Source, title: str, names: Sequence[str], *, is_large: bool = False) -> str:
    members = [(name, source.metrics[name]) for name in names]
    drawn = [
        Curve(name, series.step, series.value, _style(name), has_points=not name.startswith("train/"))
        for name, series in members
    ]
    values = [value for _, series in members for value in series.value if value - value == 0]
    is_wide = min(values) >= 0 and max(values) >= LOG_SCALE_FROM * min((one for one in values if one > 0), default=1.0)
    log_scale = is_wide and ("learning_rate" in title or "loss" in title)
    best = None
    if is_large and source.leading is not None and source.leading in names:
        peak = source.peak(source.leading)
        best = (peak.step, peak.value)
    key = "  ".join(
        f'<b class="{_style(name)}">{escape(name)}</b> {number(series.value[-1])}' for name, series in members
    )
    content = chart(drawn, log_scale=log_scale, is_large=is_large, best=best)
    return f'<figure><h3>{escape(title)}</h3><figcaption class="key">{key}</figcaption>{content}</figure>'


def _style(name: str) -> str:
    return "ema" if "/ema/" in name else name.partition("/")[0]


def evaluation(source: Source) -> str:
    """The latest report of each name: the test split first, lists of worst items last; the first one is open."""
    latest = {f"{event.split}/{event.name}": event for event in source.of(ReportEvent)}
    paths = {name: source.run.paths.inside(event.file) for name, event in latest.items()}
    reports = {name: report_of(read_json(path)) for name, path in paths.items() if path is not None}
    parts: list[str] = []
    for name in sorted(reports, key=lambda name: (bool(reports[name].pictures), not name.startswith("test"))):
        if content := _report(reports[name]):
            is_open = not parts and not reports[name].pictures
            parts.append(folded(f"{name}, step {latest[name].step}", content, is_open=is_open))
    return "".join(parts)


def _report(report: Report) -> str:
    """A report's numbers, and its matrix, curves and table as far as it has them."""
    parts = []
    if report.numbers and not report.pictures:
        parts.append(table(tuple(map(str, report.numbers)), [tuple(report.numbers.values())]))
    if report.matrix:
        parts.append(matrix(report.classes, report.matrix))
    if report.curves:
        lines = [Curve(curve.name, curve.x, curve.y, f"c{index % 6}") for index, curve in enumerate(report.curves)]
        key = " ".join(f'<b class="c{index % 6}">{escape(curve.name)}</b>' for index, curve in enumerate(report.curves))
        if drawn := diagram(lines):
            axes = escape(" over ".join(report.axes[::-1]))
            parts.append(f'<figure class="diagram"><figcaption class="key">{axes} {key}</figcaption>{drawn}</figure>')
    if report.rows and not report.matrix:
        parts.append(table(report.header, report.rows[:MOST_LISTED]))
    return "".join(parts)


def events_of_note(source: Source) -> str:
    """Warnings, and items of the data that could not be used."""
    warnings = [("warning", event.message, event.where) for event in source.of(WarningEvent)]
    bad = [("bad item", f"{event.reason} ({event.action})", event.source) for event in source.of(BadItemEvent)]
    found = [*warnings, *bad]
    more = f'<p class="quiet">and {len(found) - MOST_LISTED} more</p>' if len(found) > MOST_LISTED else ""
    return table(("kind", "what", "where"), found[:MOST_LISTED]) + more if found else ""


def checkpoints(source: Source) -> str:
    """The checkpoints that were written, with size and duration."""
    rows = [
        (event.step, ", ".join(event.reasons), size(event.bytes or 0), event.copy_ms, event.write_s)
        for event in source.of(CheckpointEvent)[-MOST_LISTED:]
    ]
    return folded(
        f"{len(rows)} written", table(("step", "reasons", "size", "copied in ms", "written in s"), rows)
    ) if rows else ""  # fmt: skip


def phases(source: Source) -> str:
    """The phases of the run other than steps, and their durations."""
    began: dict[str, float] = {}
    took: dict[str, float] = {}
    for record in source.records:
        event = record.event
        if isinstance(event, PhaseEvent):
            if event.state == "started":
                began[event.name] = record.time
            elif event.state in ("finished", "failed") and event.name in began:
                took[event.name] = took.get(event.name, 0.0) + record.time - began.pop(event.name)
    rows = [(name, duration(seconds)) for name, seconds in took.items()]
    return folded(f"{len(rows)} phases", table(("phase", "took"), rows)) if rows else ""


def ranks(source: Source) -> str:
    """The last report on the processes that train together, the slowest first."""
    reported = source.of(RanksEvent)
    if not reported:
        return ""
    names = ("rank", "host", "pid", "state", "step", "step_ms", "wait", "memory")
    rows = [[row.get(name) for name in names] for row in reported[-1].ranks]
    return folded(f"{len(rows)} processes", table(names, rows))


def kernels(source: Source) -> str:
    """The decisions of autotuning, the largest share of a step first."""
    shares = shares_of({event.program: event for event in source.of(StepEvent)}.values())
    rows = []
    for event in source.of(AutotuneEvent):
        gain = event.default_ms / event.best_ms if event.default_ms and event.best_ms else None
        skipped = ", ".join(f"{count} {reason}" for reason, count in (event.skipped or {}).items())
        rows.append(
            (event.operation, event.shape, shares.of(event), event.default_ms, event.best_ms, gain, event.candidates,
             skipped, event.source)
        )  # fmt: skip
    rows.sort(key=lambda row: (-(row[2] or 0.0), -(row[5] or 0.0)))
    shown = [(*row[:2], None if row[2] is None else f"{row[2]:.1%}", *row[3:]) for row in rows]
    header = (
        "operation",
        "shape",
        "share of a step",
        "default ms",
        "best ms",
        "times",
        "candidates",
        "skipped",
        "from",
    )
    return folded(f"{len(rows)} decisions", table(header, shown)) if rows else ""


def configuration(source: Source) -> str:
    """The resolved configuration, with the origin of each value."""
    try:
        return folded("as resolved", preformatted(source.run.config_text))
    except OSError:
        return ""


def environment(source: Source) -> str:
    """Command, versions, devices."""
    path = source.run.paths.environment(max(source.run.paths.last_attempt, 1))
    content = read_json(path)
    if not isinstance(content, dict):
        return ""
    command = content.get("command")
    line = preformatted(" ".join(map(str, command))) if isinstance(command, list) else ""
    return line + folded("versions and devices", preformatted(json.dumps(content, indent=1)))


SECTIONS: tuple[tuple[str, Callable[[Source], str]], ...] = (
    ("", head),
    ("", headline),
    ("Samples", samples),
    ("Worst items", worst_items),
    ("Evaluation", evaluation),
    ("Curves", curves),
    ("Metrics", results),
    ("Warnings and bad items", events_of_note),
    ("Phases", phases),
    ("Ranks", ranks),
    ("Checkpoints", checkpoints),
    ("Kernels", kernels),
    ("Configuration", configuration),
    ("Environment", environment),
)

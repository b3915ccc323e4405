"""What stands on the page, in its order: a table of sections, each a function from the run to HTML."""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from trainer.cli.report.html import folded, matrix, preformatted, table
from trainer.cli.report.svg import Curve, chart, diagram
from trainer.rundir import (
    AutotuneEvent,
    BadItemEvent,
    CheckpointEvent,
    Record,
    ReportEvent,
    Run,
    SampleEvent,
    Series,
    StepEvent,
    WarningEvent,
)
from trainer.tui.charts import better
from trainer.tui.numbers import duration, number, size
from trainer.tui.reports import report_of

MOST_LISTED = 200
"""Rows of a table that grows with the run."""

LOG_SCALE_FROM = 100.0
"""A learning rate that spans at least this factor is drawn on a logarithmic scale."""


@dataclass(frozen=True)
class Source:
    """The run, and how many pictures of each name are taken in, the newest first."""

    run: Run
    samples: int = 4

    @cached_property
    def records(self) -> list[Record]:
        """All records that still count."""
        return self.run.events()

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind, in their order."""
        return [record.event for record in self.records if isinstance(record.event, kind)]


def head(source: Source) -> str:
    """Which run it is and how it ended."""
    run = source.run
    facts = [run.status + (f", attempt {run.attempt}" if run.attempt > 1 else "")]
    if source.records:
        facts.append(time.strftime("%Y-%m-%d %H:%M", time.localtime(source.records[0].time)))
        facts.append(f"took {duration(run.seconds)}")
    if run.head is not None:
        threads = f", {run.head.threads} threads" if run.head.threads else ""
        facts += [f"task {run.head.task}", f"{run.head.device}{threads}", run.head.host, f"trainer {run.head.version}"]
    reason = f"<p>{escape(run.end.reason)}</p>" if run.end is not None and run.end.reason else ""
    return f'<h1>{escape(run.name)}</h1><p class="quiet">{escape(" · ".join(facts))}</p>{reason}'


def results(source: Source) -> str:
    """The last and the best of each metric."""
    rows = []
    for name, series in source.run.metrics.items():
        if not len(series):
            continue
        pick = min if better(name) == "min" else max
        finite = [(value, step) for value, step in zip(series.value, series.step, strict=True) if value == value]
        if not finite:
            continue  # a metric of what the data doesn't have, such as large objects
        best, at = pick(finite, key=lambda pair: pair[0])
        rows.append((name, series.value[-1], series.step[-1], best, at))
    leading = source.run.paths.leading_metric
    rows.sort(key=lambda row: (row[0] != leading, {"test": 0, "valid": 1}.get(row[0].partition("/")[0], 2), row[0]))
    return table(("metric", "last", "at step", "best", "at step"), rows) if rows else ""


def curves(source: Source) -> str:
    """A chart for each metric: training, validation and averaged weights in one."""
    groups: dict[str, list[tuple[str, Series]]] = {}
    for name, series in source.run.metrics.items():
        split, _, rest = name.partition("/")
        if len(series) and split in ("train", "valid"):
            groups.setdefault(rest.removeprefix("ema/"), []).append((name, series))
    charts = "".join(_figure(title, members) for title, members in groups.items())
    return f'<div class="charts">{charts}</div>' if charts else ""


def _figure(title: str, members: Sequence[tuple[str, Series]]) -> str:
    drawn = [
        Curve(name, series.step, series.value, _style(name), has_points=not name.startswith("train/"))
        for name, series in members
    ]
    positive = [value for _, series in members for value in series.value if value > 0]
    log_scale = "learning_rate" in title and bool(positive) and max(positive) >= LOG_SCALE_FROM * min(positive)
    key = "  ".join(
        f'<b class="{_style(name)}">{escape(name)}</b> {number(series.value[-1])}' for name, series in members
    )
    caption = f'<figcaption class="key">{key}</figcaption>'
    return f"<figure><h3>{escape(title)}</h3>{caption}{chart(drawn, log_scale=log_scale)}</figure>"


def _style(name: str) -> str:
    return "ema" if "/ema/" in name else name.partition("/")[0]


def samples(source: Source) -> str:
    """The newest pictures of each name, with their boxes drawn over them."""
    by_name: dict[str, list[SampleEvent]] = {}
    for event in source.of(SampleEvent):
        by_name.setdefault(f"{event.split}/{event.name}", []).append(event)
    shown = [figure for events in by_name.values() for event in events[: -source.samples - 1 : -1]
             if (figure := _sample(source, event)) is not None]  # fmt: skip
    return f'<div class="samples">{"".join(shown)}</div>' if shown else ""


def _sample(source: Source, event: SampleEvent) -> str | None:
    facts = f"{event.name}, step {event.step}" + (f": {event.caption}" if event.caption else "")
    return _shown(source, event.file, facts)


def _shown(source: Source, file: str, facts: str) -> str | None:
    """A sample's picture, with what is over it, or its text; None where the file lies outside or is not there."""
    path = source.run.paths.inside(file)
    if path is None or not path.is_file():
        return None
    if path.suffix != ".png":
        content = preformatted(path.read_text(encoding="utf-8", errors="replace"))
    else:
        data = base64.b64encode(path.read_bytes()).decode()
        image = f'<img alt="{escape(facts)}" src="data:image/png;base64,{data}">'
        content = f'<div class="picture">{image}{_masks(path)}{_boxes(path)}</div>'
    return f"<figure>{content}<figcaption>{escape(facts)}</figcaption></figure>"


def _masks(path: Path) -> str:
    """The masks that belong to a picture, as a picture of its size over it."""
    from PIL import Image

    from trainer.tui.annotations import overlay
    from trainer.tui.pictures import read_sample

    sample = read_sample(path)
    if sample is None or sample.image is None:
        return ""
    over = overlay(sample.annotations, sample.mask, (sample.image.shape[0], sample.image.shape[1]))
    if over is None:
        return ""
    file = io.BytesIO()
    Image.fromarray(over).save(file, "PNG")
    return f'<img class="mask" alt="masks" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'


def _boxes(path: Path) -> str:
    """The boxes that belong to a picture, as an SVG of its size over it."""
    from PIL import Image

    annotations = _json(path.with_suffix(".json"))
    boxes = annotations.get("boxes") if isinstance(annotations, dict) else None
    if not isinstance(boxes, list):
        return ""
    with Image.open(path) as image:
        width, height = image.size
    classes, scores = annotations.get("classes", []), annotations.get("scores", [])
    drawn = []
    for index, box in enumerate(boxes):
        if isinstance(box, list) and len(box) == 4 and all(isinstance(edge, int | float) for edge in box):
            left, top, right, bottom = box
            words = [str(column[index]) for column in (classes, scores) if index < len(column)]
            drawn.append(
                f'<rect class="box" x="{left}" y="{top}" width="{right - left}" height="{bottom - top}">'
                f"<title>{escape(' '.join(words))}</title></rect>"
            )
    return f'<svg viewBox="0 0 {width} {height}">{"".join(drawn)}</svg>'


def evaluation(source: Source) -> str:
    """The latest report of each name."""
    latest = {f"{event.split}/{event.name}": event for event in source.of(ReportEvent)}
    parts = []
    for name, event in latest.items():
        path = source.run.paths.inside(event.file)
        if path is not None:
            facts = f"{name}, step {event.step}" + (f": {event.caption}" if event.caption else "")
            parts.append(folded(facts, _report(source, _json(path))))
    return "".join(parts)


def _report(source: Source, content: Any) -> str:
    """Its numbers, and all of matrix, curves and table that it has."""
    report = report_of(content)
    parts = [table(tuple(map(str, report.numbers)), [tuple(report.numbers.values())])] if report.numbers else []
    if report.matrix:
        parts.append(matrix(report.classes, report.matrix))
    if report.curves:
        lines = [Curve(curve.name, curve.x, curve.y, f"c{index % 6}") for index, curve in enumerate(report.curves)]
        key = " ".join(f'<b class="c{index % 6}">{escape(curve.name)}</b>' for index, curve in enumerate(report.curves))
        parts.append(f'<figure class="diagram"><figcaption class="key">{escape(" over ".join(report.axes[::-1]))} '
                     f"{key}</figcaption>{diagram(lines)}</figure>")  # fmt: skip
    if report.rows and not report.matrix:
        parts.append(table(report.header, report.rows[:MOST_LISTED]))
    shown = [
        figure
        for row, files in zip(report.rows, report.pictures, strict=False)
        for file in files
        if (figure := _shown(source, file, f"{row[0]}: {row[2] or Path(file).stem} ({number(row[1])})")) is not None
    ]
    if shown:
        parts.append(f'<div class="samples">{"".join(shown)}</div>')
    return "".join(parts)


def events_of_note(source: Source) -> str:
    """Warnings, and items of the data that could not be used."""
    warnings = [("warning", event.message, event.where) for event in source.of(WarningEvent)]
    bad = [("bad item", f"{event.reason} ({event.action})", event.source) for event in source.of(BadItemEvent)]
    found = [*warnings, *bad]
    more = f'<p class="quiet">and {len(found) - MOST_LISTED} more</p>' if len(found) > MOST_LISTED else ""
    return table(("kind", "what", "where"), found[:MOST_LISTED]) + more if found else ""


def checkpoints(source: Source) -> str:
    """Which checkpoints were written, and what that took."""
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
    from trainer.rundir import PhaseEvent

    for record in source.records:
        event = record.event
        if isinstance(event, PhaseEvent):
            if event.state == "started":
                began[event.name] = record.time
            elif event.state in ("finished", "failed") and event.name in began:
                took[event.name] = took.get(event.name, 0.0) + record.time - began.pop(event.name)
    return table(("phase", "took"), [(name, duration(seconds)) for name, seconds in took.items()]) if took else ""


def kernels(source: Source) -> str:
    """What autotuning decided, the largest share of a step first."""
    from trainer.tui.shares import shares_of

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
    """The configuration as resolved, with where each value came from."""
    try:
        return folded("as resolved", preformatted(source.run.config_text))
    except OSError:
        return ""


def environment(source: Source) -> str:
    """Command, versions, devices."""
    path = source.run.paths.environment(max(source.run.paths.last_attempt, 1))
    facts = _json(path)
    if not isinstance(facts, dict):
        return ""
    command = facts.get("command")
    line = preformatted(" ".join(map(str, command))) if isinstance(command, list) else ""
    return line + folded("versions and devices", preformatted(json.dumps(facts, indent=1)))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


SECTIONS: tuple[tuple[str, Callable[[Source], str]], ...] = (
    ("", head),
    ("Results", results),
    ("Curves", curves),
    ("Samples", samples),
    ("Evaluation", evaluation),
    ("Warnings and bad items", events_of_note),
    ("Phases", phases),
    ("Checkpoints", checkpoints),
    ("Kernels", kernels),
    ("Configuration", configuration),
    ("Environment", environment),
)

"""A run as Markdown, for a pull request or a wiki: the numbers, the worst items and the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trainer.cli.output import escape_controls
from trainer.cli.report.html import is_missing
from trainer.cli.report.pictures import worst_report
from trainer.cli.report.source import METRIC_COLUMNS, Source
from trainer.tui.numbers import number


def markdown_report(source: Source) -> str:
    """The whole report as Markdown: numbers first, the table of all metrics and the configuration folded."""
    parts = [
        f"# {markdown_text(source.run.name)}",
        markdown_text(" · ".join(source.facts)),
        *map(markdown_text, source.texts),
    ]
    if source.figures:
        rows = [(name, value, when) for name, value, when in source.figures]
        parts.append(markdown_table(("monitored metric", "value", "when"), rows))
    worst = worst_report(source)
    if worst is not None:
        event, report = worst
        rows = [tuple(row) for row in report.rows]
        parts += [
            f"## Worst items of {markdown_text(event.split)}, step {event.step}",
            markdown_table(report.header, rows),
        ]
    if source.table:
        parts.append(_folded(f"All {len(source.table)} metrics", markdown_table(METRIC_COLUMNS, source.table)))
    try:
        parts.append(_folded("Configuration", f"````yaml\n{source.run.config_text.rstrip()}\n````"))
    except OSError:
        parts.append("The run has no configuration file.")
    return escape_controls("\n\n".join(parts) + "\n")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table of texts and shortened numbers."""
    lines = [header, ["---"] * len(header), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    if is_missing(value):
        return "-"
    return number(float(value)) if isinstance(value, int | float) else markdown_text(str(value))


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def markdown_text(text: str) -> str:
    """Text of a run, with all markup escaped."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{character}" if character in "\\`*_[]|#" else character for character in line)

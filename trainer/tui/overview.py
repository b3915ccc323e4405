"""The parts of the overview and their places: data for both its screen and the first frame."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from trainer.tui.box import FRAME_HEIGHT, FRAME_WIDTH, boxed
from trainer.tui.frame import Frame
from trainer.tui.panels.chart import chart_title, chart_version, draw_chart_panel
from trainer.tui.panels.diagnosis import draw_diagnosis
from trainer.tui.panels.footer import draw_footer
from trainer.tui.panels.header import draw_header
from trainer.tui.panels.log import LogFilter, draw_log
from trainer.tui.panels.metric_table import draw_metric_table, metric_names, metric_table_version
from trainer.tui.panels.newest_samples import draw_newest, newest_title, newest_version
from trainer.tui.panels.phases import draw_phases, phase_lines
from trainer.tui.panels.progress import draw_progress
from trainer.tui.panels.ranks import draw_ranks
from trainer.tui.panels.system import draw_system, system_lines
from trainer.tui.panels.tabs import draw_tabs
from trainer.tui.text import Line, line_width
from trainer.tui.view import View

if TYPE_CHECKING:
    from trainer.tui.panels.samples import Read

WIDE_COLUMNS, NORMAL_COLUMNS, TALL_ROWS = 120, 80, 20
"""Width from which the body has three charts in a row; width and height below which it shows one pane at a time."""

MIN_CHART_HEIGHT = 6
CHART_ROWS = 12
"""The body has a second row of charts if each row has at least this height."""

MAX_SHARE = 3
"""A pane has at most this many rows for each line in it."""

Place = tuple[int, int, int, int]
"""Column, line, width and height."""


class Content(NamedTuple):
    """The amount of content of each pane of the body: the number of lines, or whether it has any."""

    phases: int = 0
    metrics: int = 0
    system: int = 0
    log: int = 0
    has_samples: bool = False
    has_ranks: bool = False

    @classmethod
    def of(cls, view: View) -> Content:
        """The current content of a run."""
        metrics = len(metric_names(view))
        return cls(
            phase_lines(view), metrics + 1 if metrics else 0, system_lines(view), len(view.log), bool(view.samples),
            len(view.ranks) > 1,
        )  # fmt: skip


class Part(NamedTuple):
    """A box of the body: arguments of `Panel`."""

    name: str
    draw: Callable[[Frame, int, int], list[Line]]
    title: str | Callable[[Frame], str]
    version: Callable[[Frame], Hashable] | None = None


def parts_of_body(log_filter: Callable[[], LogFilter] = LogFilter, read: Read = lambda event: None) -> list[Part]:
    """The boxes of the body; `read` reads samples."""

    def log_version(frame: Frame) -> Hashable:
        return frame.view.attempt, frame.view.log_count, frame.scroll, log_filter()

    def system_version(frame: Frame) -> Hashable:
        return frame.view.samples_taken, frame.view.device

    def chart(name: str) -> Part:
        return Part(name, draw_chart_panel(name), chart_title(name), chart_version(name))

    return [
        Part("phases", draw_phases, "phases"),
        Part("metrics", draw_metric_table, "metrics", metric_table_version),
        chart("loss"),
        chart("valid"),
        Part("system", draw_system, "system", system_version),
        chart("rate"),
        Part(
            "samples",
            lambda frame, width, height: draw_newest(frame, width, height, read),
            newest_title,
            newest_version,
        ),
        Part(
            "log",
            lambda frame, width, height: draw_log(frame, width, height, log_filter()),
            lambda frame: log_filter().title,
            log_version,
        ),
        Part("ranks", draw_ranks, "ranks, the slowest first (9)", lambda frame: frame.view.ranks),
    ]


def is_small(width: int, height: int) -> bool:
    """Whether a terminal has room for one pane only."""
    return width < NORMAL_COLUMNS or height < TALL_ROWS


def body_places(width: int, height: int, content: Content) -> dict[str, Place]:
    """The place of each box, relative to the body: phases, metrics and system; charts and samples; the log.

    A box without content is left out, and none is much taller than its content: charts take the remaining rows.
    """
    rows = {name: lines for name, lines in (("phases", content.phases), ("metrics", content.metrics),
                                            ("system", content.system)) if lines}  # fmt: skip
    rows = rows or {"phases": 1}
    most = height // 4 if content.metrics else height // 2
    band = FRAME_HEIGHT + min(max(4, most), max(rows.values()), MAX_SHARE * min(rows.values()))
    log_rows = max(3, height // 5)
    log = FRAME_HEIGHT + (log_rows if MAX_SHARE * content.log >= log_rows or content.has_ranks else 3)
    band = max(0, min(band, height - log - MIN_CHART_HEIGHT))
    places = _in_columns(list(rows), 0, width, 0, band)
    places |= _in_columns(["log", "ranks"] if content.has_ranks else ["log"], 0, width, height - log, log)
    room = max(0, height - band - log)
    upper, lower = _charts(width, room, content)
    ends = _lines(room, (None,) * (1 + bool(lower)), (3, 2))
    places |= _in_columns(upper, 0, width, band, ends[1])
    places |= _in_columns(lower, 0, width, band + ends[1], room - ends[1])
    return places


def _charts(width: int, height: int, content: Content) -> tuple[list[str], list[str]]:
    """The charts of the first row and of the second."""
    more = ["samples"] if content.has_samples else ["rate"]
    if width < WIDE_COLUMNS:
        return ["loss", "valid"], []
    if height >= 2 * CHART_ROWS:
        return ["loss", "valid"], ["rate", "samples"] if content.has_samples else ["rate"]
    return ["loss", "valid", *more], []


FIXED_WIDTHS = {"phases": (28, 36), "system": (23, 30)}
"""Widths of boxes next to a table, on a narrow terminal and on a wide one."""


def _in_columns(names: Sequence[str], x: int, width: int, y: int, height: int) -> dict[str, Place]:
    """The places of boxes next to each other: boxes of a fixed width keep it, the others share the rest."""
    fixed = [FIXED_WIDTHS[name][width >= WIDE_COLUMNS] if name in FIXED_WIDTHS else None for name in names]
    if None not in fixed and fixed:
        fixed[0] = None
    ends = _lines(width, fixed, (1,) * len(names))
    return {name: (x + start, y, end - start, height) for name, start, end in zip(names, ends, ends[1:], strict=False)}


def places(width: int, height: int, content: Content) -> dict[str, Place]:
    """The place of everything on a terminal of this size: the rows and, on a large one, the body between them."""
    header = {"header": (0, 0, width, 1)}
    result = {"progress": (0, height - 2, width, 1), "footer": (0, height - 1, width, 1)}
    if is_small(width, height):
        return {**header, "tabs": (0, 1, width, 1), "phases": (0, 2, width, max(0, height - 4)), **result}
    boxes = {name: (x, 2 + y, *size) for name, (x, y, *size) in body_places(width, height - 4, content).items()}
    return {**header, "diagnosis": (0, 1, width, 1), **boxes, **result}  # type: ignore[dict-item]


def draw_overview(frame: Frame, width: int, height: int) -> list[tuple[int, int, Line]]:
    """The whole screen including blanks: lines, each with the column and the row where it begins."""
    rows: Mapping[str, Callable[[Frame, int, int], list[Line]]] = {
        "header": draw_header, "diagnosis": draw_diagnosis, "tabs": draw_tabs, "progress": draw_progress,
        "footer": draw_footer,
    }  # fmt: skip
    parts = {part.name: part for part in parts_of_body()}
    drawn = []
    for name, (x, y, columns, lines) in places(width, height, Content.of(frame.view)).items():
        if name in rows:
            for line in rows[name](frame, columns, lines):
                drawn.append((x, y, (*line, (" " * (columns - line_width(line)), "text"))))
            continue
        part = parts[name]
        inside = part.draw(frame, max(0, columns - FRAME_WIDTH), max(0, lines - FRAME_HEIGHT))
        title = part.title(frame) if callable(part.title) else part.title
        box = boxed(inside, title, columns, lines, frame.glyphs)
        drawn += [(x, y + number, line) for number, line in enumerate(box)]
    return drawn


def _lines(total: int, fixed: Sequence[int | None], shares: Sequence[int]) -> list[int]:
    """The edges of the tracks of a grid: tracks without a fixed length share the rest."""
    rest = max(0, total - sum(length or 0 for length in fixed))
    weights = [share if length is None else 0 for length, share in zip(fixed, shares, strict=False)]
    whole = max(1, sum(weights))
    # in units of 1 / whole, so that only the ends are rounded down
    lengths = [weight * rest if length is None else length * whole
               for length, weight in zip(fixed, weights, strict=True)]  # fmt: skip
    return [end // whole for end in accumulate(lengths, initial=0)]

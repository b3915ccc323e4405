"""What the overview consists of, and where each part stands: data for its screen and for the first frame alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from trainer.tui.box import FRAME_HEIGHT, FRAME_WIDTH, boxed
from trainer.tui.frame import Frame
from trainer.tui.panels.chart import chart_title, chart_version, draw_chart_panel
from trainer.tui.panels.footer import draw_footer
from trainer.tui.panels.header import draw_header
from trainer.tui.panels.log import LogFilter, draw_log
from trainer.tui.panels.newest import draw_newest, newest_title, newest_version
from trainer.tui.panels.phases import draw_phases
from trainer.tui.panels.progress import draw_progress
from trainer.tui.panels.system import draw_system
from trainer.tui.panels.tabs import draw_tabs
from trainer.tui.text import Line, line_width

if TYPE_CHECKING:
    from trainer.tui.panels.samples import Read

WIDE_COLUMNS, NORMAL_COLUMNS, TALL_ROWS = 120, 80, 20
"""From which size on the body has four columns; and below which one pane is shown at a time."""

Place = tuple[int, int, int, int]
"""Column, line, width and height."""


class Part(NamedTuple):
    """A box of the body, as `Panel` takes it."""

    name: str
    draw: Callable[[Frame, int, int], list[Line]]
    title: str | Callable[[Frame], str]
    version: Callable[[Frame], Hashable] | None = None


def parts_of_body(log_filter: Callable[[], LogFilter] = LogFilter, read: Read = lambda event: None) -> list[Part]:
    """The boxes of the body, in the order in which a grid takes them; `read` reads samples."""

    def log_version(frame: Frame) -> Hashable:
        return frame.view.attempt, frame.view.log_count, frame.scroll, log_filter()

    def system_version(frame: Frame) -> Hashable:
        return frame.view.samples_taken, frame.view.device

    def chart(name: str) -> Part:
        return Part(name, draw_chart_panel(name), chart_title(name), chart_version(name))

    return [
        Part("phases", draw_phases, "phases"),
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
    ]


def places(width: int, height: int, *, has_samples: bool = False) -> dict[str, Place]:
    """Where everything stands on a terminal of a size, as the app's style sheet has it: what is not shown is left out.

    On a small terminal the body is one pane, the phases; on a wide one samples have a place once there are some.
    """
    is_small = width < NORMAL_COLUMNS or height < TALL_ROWS
    top = 2 if is_small else 1
    rows = max(0, height - top - 2)
    header = {"header": (0, 0, width, 1)}
    result = {"progress": (0, height - 2, width, 1), "footer": (0, height - 1, width, 1)}
    if is_small:
        return {**header, "tabs": (0, 1, width, 1), "phases": (0, top, width, rows), **result}
    if width < WIDE_COLUMNS:
        x, y = _lines(width, (32, None), (1,)), _lines(rows, (None, None, 6), (4, 3))
        cells = {
            "phases": (0, 0, 1, 2), "loss": (1, 0, 2, 1), "valid": (1, 1, 2, 2),
            "system": (0, 2, 1, 3), "log": (1, 2, 2, 3),
        }  # fmt: skip
    else:
        x, y = _lines(width, (32, None, None, 30), (1, 1)), _lines(rows, (None, None, 9), (3, 2))
        cells = {
            "phases": (0, 0, 1, 2), "loss": (1, 0, 2, 1), "valid": (2, 0, 3, 1 if has_samples else 2),
            "system": (3, 0, 4, 2), "rate": (1, 1, 2, 2), "log": (0, 2, 4, 3),
        }  # fmt: skip
        cells |= {"samples": (2, 1, 3, 2)} if has_samples else {}
    boxes = {
        name: (x[left], top + y[upper], x[right] - x[left], y[lower] - y[upper])
        for name, (left, upper, right, lower) in cells.items()
    }
    return {**header, **boxes, **result}


def draw_overview(frame: Frame, width: int, height: int) -> list[tuple[int, int, Line]]:
    """The whole screen, blanks included: lines, each with the column and the line at which it begins."""
    rows = {"header": draw_header, "tabs": draw_tabs, "progress": draw_progress, "footer": draw_footer}
    parts = {part.name: part for part in parts_of_body()}
    drawn = []
    for name, (x, y, columns, lines) in places(width, height, has_samples=bool(frame.view.samples)).items():
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
    """Where the tracks of a grid begin and end: those without a fixed length have a share of what is left."""
    left = max(0, total - sum(length or 0 for length in fixed))
    share = iter(shares)
    # in units of 1/sum(shares), so that rounding down happens at the ends alone
    lengths = [next(share) * left if length is None else length * sum(shares) for length in fixed]
    return [end // sum(shares) for end in accumulate(lengths, initial=0)]

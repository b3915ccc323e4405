"""A short animated picture of a run, from its start to its end: `python docs/run_animation.py RUN FILE.svg`.

The run's records are replayed into the dashboard at the moments of the frames, and each screen becomes rows of an SVG
that CSS shows one after the other. A row that stays as it is stands in the file once. Where animations are switched
off, the last frame stays.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import html
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme

from trainer.rundir import Record, RunPaths, encode, host_name, read_events
from trainer.tui.app import Dashboard
from trainer.tui.feed import Feed

CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 17, 8
INK, PAPER = "#d8d8d8", "#101418"
HALF = "▀"

NORMAL = ["#3a4048", "#f07178", "#8fc77b", "#e5c07b", "#6ca8f0", "#cc8ae0", "#56c2d6", "#c8ccd2"]
BRIGHT = ["#6b737d", "#ff8b92", "#a8dd95", "#ffd68f", "#8cc0ff", "#e0a6f0", "#7adbec", "#ffffff"]


def _rgb(color: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(color[1:])
    return red, green, blue


THEME = TerminalTheme(_rgb(PAPER), _rgb(INK), [*map(_rgb, NORMAL)], [*map(_rgb, BRIGHT)])
"""What a terminal's sixteen colors are here."""

FIRST_SECONDS = (0.3, 0.6, 1.0, 1.6, 2.4, 3.5, 5.0)
"""Moments of the start, of which every one shows something new."""

SECONDS_A_FRAME, SECONDS_OF_THE_LAST = 0.6, 2.5


@dataclass(frozen=True)
class Shown:
    """A frame: its rows as SVG, and for how long it is shown, in seconds."""

    rows: tuple[str, ...]
    seconds: float


def moments(records: Sequence[Record], count: int) -> list[float]:
    """The times of the frames, in seconds since 1970: the first seconds, then evenly spaced up to the end."""
    start, end = records[0].time - records[0].since_start, records[-1].time
    first = [start + seconds for seconds in FIRST_SECONDS if start + seconds < end]
    rest = max(1, count - len(first))
    begin = first[-1] if first else start
    return [*first, *(begin + (end - begin) * (index + 1) / rest for index in range(rest))]


async def screens(run: RunPaths, columns: int, lines: int, frames: int, keys: Sequence[str]) -> list[Shown]:
    """The dashboard of the run at the moments of the frames, and after its end the screens that the keys lead to."""
    records = read_events(run.events)
    shown: list[Shown] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = RunPaths(Path(folder) / run.name)
        paths.root.mkdir()
        for part in (run.samples, run.reports):
            shutil.copytree(part, paths.root / part.name)
        shutil.copy(run.config(1), paths.config(1))
        paths.events.touch()
        now = [records[0].time]
        terminal = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        app = Dashboard(Feed(paths.root, lambda: now[0]), environment=terminal)
        async with app.run_test(size=(columns, lines)) as pilot:
            written = 0
            for moment in moments(records, frames):
                now[0] = moment
                with paths.events.open("ab") as file:
                    while written < len(records) and records[written].time <= moment:
                        file.write(_line(records[written]))
                        written += 1
                _hold_lock(paths, moment)
                shown.append(Shown(await _rows(app, pilot), SECONDS_A_FRAME))
            for key in keys:
                await pilot.press(*key.split("+"))
                shown.append(Shown(await _rows(app, pilot), SECONDS_OF_THE_LAST))
    return shown


def _line(record: Record) -> bytes:
    return encode(record.event, time=record.time, since_start=record.since_start, attempt=record.attempt)


def _hold_lock(paths: RunPaths, heartbeat: float) -> None:
    """A lock as the worker left it at this moment."""
    paths.lock.write_text(json.dumps({"pid": os.getpid(), "host": host_name(), "token": "replay"}), encoding="utf-8")
    os.utime(paths.lock, (heartbeat, heartbeat))


async def _rows(app: Dashboard, pilot: Any) -> tuple[str, ...]:
    """The rows of the screen once everything written so far has been read and drawn."""
    app._after_first_frame()
    for _ in range(3):
        await pilot.pause()
        app._drawn_at = 0.0
        app.advance()
        await pilot.pause()
    return tuple("".join(_row(list(strip))) for strip in app.screen._compositor.render_strips())


def _row(segments: Sequence[Segment]) -> Iterator[str]:
    """A row as SVG, from its own upper edge on: backgrounds, pixels of pictures, texts."""
    column = 0
    spans: list[tuple[int, str, Style]] = []
    for segment in segments:
        style = segment.style or Style.null()
        if spans and spans[-1][2] == style and not segment.text.startswith(HALF):
            spans[-1] = (spans[-1][0], spans[-1][1] + segment.text, style)
        else:
            spans.append((column, segment.text, style))
        column += segment.cell_length
    pixels: list[tuple[str, str]] = []
    for at, text, style in [*spans, (column, "", Style.null())]:
        ink, paper = _colors(style)
        if text.startswith(HALF) and text.strip(HALF) == "" and paper is not None:
            pixels += [(ink, paper)] * len(text)
            continue
        if pixels:
            yield _picture(at - len(pixels), pixels)
            pixels = []
        if paper is not None:
            yield f'<rect x="{_x(at)}" width="{_x(len(text))}" height="{CELL_HEIGHT}" fill="{paper}"/>'
        bare = text.strip()
        if bare:
            left = at + len(text) - len(text.lstrip())
            bold = ' font-weight="bold"' if style.bold else ""
            fill = f' fill="{ink}"' if ink != INK else ""
            yield (f'<text x="{_x(left)}" y="13" textLength="{_x(len(bare))}"{fill}{bold}>'
                   f"{html.escape(bare, quote=False)}</text>")  # fmt: skip


def _picture(column: int, pixels: Sequence[tuple[str, str]]) -> str:
    """Half-blocks next to each other as a picture of two rows of pixels."""
    picture = Image.new("RGB", (len(pixels), 2))
    picture.putdata([tuple(bytes.fromhex(pair[row][1:])) for row in range(2) for pair in pixels])
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    data = base64.b64encode(file.getvalue()).decode()
    return (f'<image x="{_x(column)}" width="{_x(len(pixels))}" height="{CELL_HEIGHT}" preserveAspectRatio="none" '
            f'href="data:image/png;base64,{data}"/>')  # fmt: skip


def _colors(style: Style) -> tuple[str, str | None]:
    """The colors of the characters and of what is behind them; None: the terminal's own background."""
    ink = style.color.get_truecolor(THEME).hex if style.color is not None and not style.color.is_default else INK
    paper = (
        style.bgcolor.get_truecolor(THEME).hex if style.bgcolor is not None and not style.bgcolor.is_default else None
    )
    if style.dim and style.color is None:
        ink = "#8a9097"
    return (paper or PAPER, ink) if style.reverse else (ink, paper)


def _x(cells: int) -> str:
    return f"{cells * CELL_WIDTH:.1f}".rstrip("0").rstrip(".")


def animation(frames: Sequence[Shown], columns: int) -> str:
    """The frames as one SVG; every different content of a row is a group that is visible while its frames are."""
    starts = [sum(frame.seconds for frame in frames[:index]) for index in range(len(frames) + 1)]
    whole, last = starts[-1], len(frames) - 1
    keyframes: dict[tuple[int, int], str] = {}
    groups = []
    for row in range(max(len(frame.rows) for frame in frames)):
        contents = [frame.rows[row] if row < len(frame.rows) else "" for frame in frames]
        begin = 0
        for index in range(1, len(frames) + 1):
            if index <= last and contents[index] == contents[begin]:
                continue
            if contents[begin]:
                look = _look(begin, index, len(frames), keyframes)
                groups.append(f'<g transform="translate(0 {row * CELL_HEIGHT})"{look}>{contents[begin]}</g>')
            begin = index
    rules = []
    for (begin, end), name in keyframes.items():
        hide = f"{100 * starts[end] / whole:.2f}%{{visibility:hidden}}" if end <= last else ""
        first = "" if begin == 0 else "0%{visibility:hidden}"
        rules.append(f"@keyframes {name}{{{first}{100 * starts[begin] / whole:.2f}%{{visibility:visible}}{hide}}}")
        rules.append(f".{name}{{animation-name:{name}}}")
    width = columns * CELL_WIDTH + 2 * MARGIN
    height = max(len(frame.rows) for frame in frames) * CELL_HEIGHT + 2 * MARGIN
    style = (
        f"text{{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}}"
        "image{image-rendering:pixelated}"
        f".v{{visibility:hidden;animation:{whole:.1f}s step-end infinite}}.last{{visibility:visible}}"
        f"@media (prefers-reduced-motion:reduce){{.v{{animation:none}}}}{''.join(rules)}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        f'aria-label="The dashboard of a training run, from its start to its end"><style>{style}</style>'
        f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>'
        f'<g transform="translate({MARGIN} {MARGIN})" fill="{INK}">{"".join(groups)}</g></svg>\n'
    )


def _look(begin: int, end: int, count: int, keyframes: dict[tuple[int, int], str]) -> str:
    """The attributes of a group that is visible from one frame to another; none where it always is."""
    if (begin, end) == (0, count):
        return ""
    name = keyframes.setdefault((begin, end), f"k{len(keyframes)}")
    return f' class="v {name}{" last" * (end == count)}"'


def main() -> None:
    """Read a run, write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--lines", type=int, default=30)
    parser.add_argument("--frames", type=int, default=24, help="while it trains")
    parser.add_argument(
        "--keys", nargs="*", default=["3", "4", "1"], help="pressed after the end; 4+left: one after the other"
    )
    arguments = parser.parse_args()
    taken = screens(RunPaths(arguments.run), arguments.columns, arguments.lines, arguments.frames, arguments.keys)
    text = animation(asyncio.run(taken), arguments.columns)
    arguments.file.write_text(text, encoding="utf-8")
    print(f"{arguments.file}: {len(text.encode()) / 1000:.0f} kB")


if __name__ == "__main__":
    main()

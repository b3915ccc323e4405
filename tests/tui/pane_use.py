"""Counts the used rows of each pane of the overview in the recorded states of a run, and of the other screens.

python tests/tui/pane_use.py
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import Clock, dashboard, hold_lock, settle
from recorded_states import ALIVE, STATES
from synthetic_run import START

from trainer.tui.app import Dashboard
from trainer.tui.palette import choose_palette
from trainer.tui.panel import Panel

SIZES = ((80, 24), (120, 36), (200, 60))
SCREENS = {"2": "metrics", "3": "samples", "4": "evaluation", "5": "kernels", "6": "runs", "7": "config"}


def used_rows(app: Dashboard) -> Mapping[str, tuple[int, int]]:
    """By pane of the screen, the number of rows with something in them, and the number of all rows inside its box."""
    lines = ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]
    counted = {}
    for panel in app.screen.query(Panel):
        region = panel.region
        if panel.drawn_at != (0, 0) and region.width and region.height:
            inside = [line[region.x + 2 : region.right - 2] for line in lines[region.y + 1 : region.bottom - 1]]
            counted[panel.id or ""] = sum(bool(row.strip()) for row in inside), len(inside)
    return counted


@asynccontextmanager
async def recorded_screen(
    state: str, size: tuple[int, int], folder: Path, keys: str = "", colors: str = "standard"
) -> AsyncIterator[Dashboard]:
    """The dashboard of a recorded state on a terminal of a size, after some keys, once it is drawn."""
    clock = Clock(START + 10)
    paths = STATES[state](folder / "digits-7")
    if state in ALIVE:
        hold_lock(paths, os.getpid(), clock.now)
    app = dashboard(paths, clock)
    async with app.run_test(size=size) as pilot:
        app.palette = choose_palette(colors)
        await pilot.press(*keys)
        for _ in range(4):
            await settle(app, pilot)
        yield app


async def count(state: str, size: tuple[int, int], folder: Path, keys: str = "") -> Mapping[str, tuple[int, int]]:
    """The used rows of one state on a terminal of a size, after some keys."""
    async with recorded_screen(state, size, folder, keys) as app:
        return used_rows(app)


def all_counts() -> Iterator[tuple[str, str, str, int, int]]:
    """State or screen, size, pane, used rows, all rows."""
    for size in SIZES:
        for state in STATES:
            with tempfile.TemporaryDirectory() as folder:
                panes = asyncio.run(count(state, size, Path(folder)))
            for pane, (used, rows) in panes.items():
                yield state, f"{size[0]}x{size[1]}", pane, used, rows
        for key, screen in SCREENS.items():
            with tempfile.TemporaryDirectory() as folder:
                panes = asyncio.run(count("finished", size, Path(folder), key))
            for pane, (used, rows) in panes.items():
                yield f"screen {screen}", f"{size[0]}x{size[1]}", pane, used, rows


if __name__ == "__main__":
    listed = list(all_counts())
    for name, size, pane, used, rows in listed:
        print(f"{name:20} {size:8} {pane:16} {used:3} of {rows:3}  {used / rows:4.0%}")
    low = [row for row in listed if 3 * row[3] < row[4]]
    print(f"{len(listed)} panes, {len(low)} with less than a third of their rows used")

"""Whole screens as they were looked at and found right: each state on the overview, each screen, in several sizes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import snapshot
from conftest import UTF8, Clock, dashboard, hold_lock, settle
from recorded_states import ALIVE, STATES, failed, finished, running

from tests.tiers import tiered
from trainer.tui.app import Dashboard
from trainer.tui.feed import Feed

NOBODY = 2**22 + 1
"""A pid that no system assigns."""
SIZES = {"80x24": (80, 24), "120x36": (120, 36), "60x16": (60, 16)}
KEYS = {
    "metrics": ("2",), "samples": ("3",), "evaluation": ("4",), "kernels": ("5",), "runs": ("6",), "config": ("7",),
    "help": ("question_mark",), "worst": ("4", "left", "down"), "picture": ("4", "left", "enter"),
}  # fmt: skip
"""What leads to each screen; `worst` and `picture` are the worst items of the evaluation screen."""

CASES = [
    *((state, "overview", size) for state in (*STATES, "crashed", "silent") for size in SIZES),
    *((state, screen, "80x24") for state in ("finished", "empty") for screen in KEYS
      if state == "finished" or screen not in ("worst", "picture")),
    ("finished", "worst", "60x16"),
    *(("finished", screen, "120x36") for screen in KEYS),
    ("many_metrics", "metrics", "80x24"), ("not_finite", "metrics", "80x24"), ("tuning", "kernels", "80x24"),
]  # fmt: skip
QUICK = [case for case in CASES if case[2] == "80x24" or case[0] == "running"]


@pytest.fixture(autouse=True)
def everyones_terminal() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("NO_COLOR", raising=False)
        environment.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(("state", "screen", "size"), tiered(CASES, QUICK), ids=lambda part: part)
async def test_a_screen_is_as_it_was_found_right(
    state: str, screen: str, size: str, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = STATES.get(state, running)
    paths = made(tmp_path / "runs" / "digits-7")
    if state in ALIVE or state == "silent":
        hold_lock(paths, os.getpid(), clock.now - (20 if state == "silent" else 0))
    elif state == "crashed":
        hold_lock(paths, NOBODY, clock.now)
        paths.log.write_text("loading\nMemoryError: cannot allocate 12 GB\n")
    app = dashboard(paths, clock)
    async with app.run_test(size=SIZES[size]) as pilot:
        if screen != "overview":
            await pilot.press(*KEYS[screen])
        for _ in range(3):
            await settle(app, pilot)
        drawn = snapshot.screen_of(app)
    snapshot.compare(f"{state}-{screen}-{size}", drawn)


@pytest.mark.parametrize("look", ["sixteen", "no_colour", "ascii"])
async def test_other_terminals(look: str, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = finished(tmp_path / "runs" / "digits-7")
    environment = {"LC_ALL": "C" if look == "ascii" else "C.UTF-8", "TERM": "xterm"}
    if look == "no_colour":
        monkeypatch.setenv("NO_COLOR", "1")
    app = dashboard(paths, clock, environment=environment)
    if look == "sixteen":
        from trainer.tui.palette import choose_palette

        app.palette = choose_palette("standard")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(app, pilot)
        drawn = snapshot.screen_of(app)
    snapshot.compare(f"finished-overview-{look}", drawn)


@pytest.mark.parametrize("size", ["80x24", "120x36"])
@pytest.mark.parametrize("screen", ["runs", "overview"])
async def test_several_runs(screen: str, size: str, tmp_path: Path, clock: Clock) -> None:
    roots = [finished(tmp_path / "runs" / "digits-7").root, failed(tmp_path / "elsewhere" / "gentle").root]
    app = Dashboard(Feed(roots[0], clock, watched=roots), environment=UTF8)
    async with app.run_test(size=SIZES[size]) as pilot:
        for _ in range(100):  # files are read in boxed time
            if "B gentle  ✗ failed" in await settle(app, pilot) and not app._is_behind():
                break
        if screen == "overview":
            await pilot.press("1", "right_square_bracket")
            while app._is_behind():
                await settle(app, pilot)
        clock.now += 1  # charts of what was read in parts wait for the next half second
        for _ in range(3):
            await settle(app, pilot)
        drawn = snapshot.screen_of(app)
    snapshot.compare(f"several-{screen}-{size}", drawn)


def test_no_snapshot_is_left_over() -> None:
    names = {f"{state}-{screen}-{size}" for state, screen, size in CASES}
    names |= {f"finished-overview-{look}" for look in ("sixteen", "no_colour", "ascii")}
    names |= {f"several-{screen}-{size}" for screen in ("runs", "overview") for size in ("80x24", "120x36")}
    assert {file.stem for file in snapshot.FOLDER.iterdir()} == names

"""The mouse: clicks, wheel, drags and hovers, by Textual's pilot at the cells where things stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import synthetic_run
from conftest import Clock, dashboard, settle
from textual.events import MouseScrollDown, MouseScrollUp

from trainer.rundir import RunPaths, take_requests
from trainer.tui.app import Dashboard
from trainer.tui.glyphs import UNICODE
from trainer.tui.listing import Column, Row, TableState, draw_table, place_in_table
from trainer.tui.screens import HelpDialogue, StopDialogue
from trainer.tui.text import plain


@pytest.fixture
def shown(tmp_path: Path) -> RunPaths:
    """A finished run with samples, reports and tuning decisions, and one beside it."""
    synthetic_run.write_run(tmp_path / "runs" / "digits-8", epochs=3)
    return synthetic_run.write_run(tmp_path / "runs" / "digits-7", has_shown=True)


async def click_on(text: str, app: Dashboard, pilot: Any, times: int = 1) -> str:
    """Click on the first place where a text stands."""
    lines = (await settle(app, pilot)).splitlines()
    y = next(number for number, line in enumerate(lines) if text in line)
    await pilot.click(offset=(lines[y].index(text), y), times=times)
    return await settle(app, pilot)


async def wheel(app: Dashboard, pilot: Any, x: int, y: int, notches: int, **held: bool) -> str:
    """Turn the wheel over a cell."""
    kind = MouseScrollDown if notches > 0 else MouseScrollUp
    for _ in range(abs(notches)):
        await pilot._post_mouse_events([kind], offset=(x, y), button=0, **held)
    return await settle(app, pilot)


async def test_keys_in_the_last_line_can_be_clicked(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(200, 50)) as pilot:
        assert "what was resolved" not in await click_on("7 config", app, pilot)
        assert app._scope() == "config"
        await click_on("2 metrics", app, pilot)
        assert app._scope() == "metrics"
        await click_on("l scale", app, pilot)
        assert app.screen.state.log_scale
        await click_on("c checkpoint", app, pilot)
        (request,) = take_requests(running)
        assert request.what == "checkpoint"


async def test_where_there_is_no_room_for_their_names_the_next_screen_is_a_click_away(
    running: RunPaths, clock: Clock
) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(80, 24)) as pilot:
        for expected in ("metrics", "samples"):
            await click_on("1-7 screens", app, pilot)
            assert app._scope() == expected


async def test_tabs_and_charts_can_be_clicked(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(60, 20)) as pilot:
        assert "[log]" in await click_on(" log ", app, pilot)
        await click_on("system", app, pilot)
        assert app.screen.pane == "system"
        await click_on(" loss ", app, pilot)
        await click_on("loss  train", app, pilot)
        assert app._scope() == "metrics"


async def test_the_stop_dialogue_takes_a_click_on_its_rows(running: RunPaths, clock: Clock) -> None:
    app = dashboard(running, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await click_on("x stop", app, pilot)
        assert isinstance(app.screen, StopDialogue)
        await click_on("Close this dialogue", app, pilot)
        assert not isinstance(app.screen, StopDialogue) and take_requests(running) == []
        await click_on("x stop", app, pilot)
        await click_on("Finish this step", app, pilot)
        assert [request.what for request in take_requests(running)] == ["stop"]


async def test_the_wheel_scrolls_the_log_and_the_help(running: RunPaths, clock: Clock) -> None:
    running.log.write_text("".join(f"printed line {number}.\n" for number in range(60)))
    app = dashboard(running, clock)
    async with app.run_test(size=(100, 24)) as pilot:
        assert "line 59." in await settle(app, pilot)
        text = await wheel(app, pilot, 50, 20, -3)
        assert "line 59." not in text and "line 50." in text
        assert "line 59." in await wheel(app, pilot, 50, 20, 4)
        await pilot.press("question_mark")
        first = await settle(app, pilot)
        assert isinstance(app.screen, HelpDialogue) and "Phases, metrics" in first
        assert "Phases, metrics" not in await wheel(app, pilot, 50, 12, 6)


async def test_a_click_on_a_columns_head_sorts_and_on_a_row_selects(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.press("5")
        await click_on("best ms", app, pilot)
        assert "best msv" in await click_on("kernels", app, pilot)
        lines = (await click_on("best msv", app, pilot)).splitlines()
        assert any("best ms^" in line for line in lines)
        row = [number for number, line in enumerate(lines) if "conv 3x3" in line][2]
        await pilot.click(offset=(20, row))
        assert "▶conv 3x3" in (await settle(app, pilot)).splitlines()[row]
        assert app.screen.table.selected > 0


async def test_a_double_click_looks_at_a_run(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        for _ in range(3):
            await settle(app, pilot)
        await click_on("digits-8", app, pilot, times=2)
        assert app.feed.paths.name == "digits-8" and app._scope() == "overview"


async def test_pictures_are_chosen_and_enlarged_by_clicks(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.press("3")
        await click_on("valid/plain", app, pilot)
        assert app.screen.state.selected == 1
        await click_on("valid/words", app, pilot, times=2)
        assert app.screen.state.selected == 2 and app.screen.state.is_enlarged
        text = await wheel(app, pilot, 80, 20, 1, shift=True)
        assert "newest of 2" in text
        assert "1 back of 2" in await wheel(app, pilot, 80, 20, -1, shift=True)


async def test_the_wheel_zooms_around_the_pointer_and_a_double_click_shows_all_again(
    shown: RunPaths, clock: Clock
) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.press("2", "enter")
        await settle(app, pilot)
        panel = app.screen.query_one("#metric-0")
        x, y = panel.region.x + 100, panel.region.y + 10
        await pilot.hover(offset=(x, y))
        await settle(app, pilot)
        pointed = app.screen.state.window.cursor
        assert pointed is not None and 400 < pointed < 800
        await wheel(app, pilot, x, y, -6)
        window = app.screen.state.window
        assert window.end is not None and window.end - window.start < 400 and window.start < pointed < window.end
        await pilot.hover(offset=(x, y))
        await settle(app, pilot)
        columns = 5 * (window.end - window.start) / panel.size.width  # the labels of the values may be longer now
        assert app.screen.state.window.cursor == pytest.approx(pointed, abs=columns), "the step stays where it was"
        await pilot.mouse_down(offset=(x, y))
        await pilot._post_mouse_events([_move()], offset=(x - 20, y), button=1)
        await pilot.mouse_up(offset=(x - 20, y))
        await settle(app, pilot)
        assert app.screen.state.window.start > window.start, "what is dragged to the left shows later steps"
        await pilot.click(offset=(x, y), times=2)
        await settle(app, pilot)
        assert app.screen.state.window.end is None and app.screen.state.window.cursor is None


def _move() -> type:
    from textual.events import MouseMove

    return MouseMove


async def test_the_cross_hair_of_all_charts_follows_the_pointer(shown: RunPaths, clock: Clock) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.press("2")
        await settle(app, pilot)
        panel = app.screen.query_one("#metric-1")
        await pilot.hover(offset=(panel.region.x + 30, panel.region.y + 5))
        text = await settle(app, pilot)
        step = app.screen.state.window.cursor
        assert step is not None and f"values at step {step:.0f}" in text and text.count(f"@ {step:.0f}") == 3


async def test_frames_for_the_mouse_are_as_far_apart_as_the_line_can_bear(
    shown: RunPaths, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = dashboard(shown, clock, environment={"LC_ALL": "C.UTF-8", "TERM": "xterm", "SSH_CONNECTION": "1 2 3 4"})
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.press("2")
        await settle(app, pilot)
        now, drawn = 1000.0, []
        monkeypatch.setattr(app, "_loop_time", lambda: now)
        monkeypatch.setattr(app, "draw", lambda: drawn.append(now))
        for _ in range(100):  # a second of motions
            app.draw_soon()
            now += 0.01
        assert len(drawn) == 1 and app._is_drawing_soon, "the others are drawn together, when it is time"
        app._draw_for_pointer()
        assert len(drawn) == 2 and not app._is_drawing_soon


@pytest.mark.parametrize("width", [30, 60, 100])
@pytest.mark.parametrize("selected", [0, 7, 19])
def test_a_place_in_a_table_is_what_is_drawn_there(width: int, selected: int) -> None:
    columns = (Column("name"), Column("value", is_number=True), Column("gone", rank=2), Column("kept", rank=1))
    rows = [Row((f"row{index:02}", str(index), "x" * 20, "y" * 9), (index,) * 4, mark="A") for index in range(20)]
    state = TableState(selected, column=1, is_reversed=True)
    lines = plain(draw_table(columns, rows, state, width, 9, UNICODE)).splitlines()
    for y, line in enumerate(lines[1:], start=1):
        row, column = place_in_table(columns, rows, state, width, 9, 4, y)
        assert column is None and row is not None and f"row{19 - row:02}" in line
    for index, title in enumerate(column.title for column in columns):
        if title in lines[0]:
            assert place_in_table(columns, rows, state, width, 9, lines[0].index(title), 0) == (None, index)
    assert place_in_table(columns, rows, state, width, 9, 0, 0) == (None, None)

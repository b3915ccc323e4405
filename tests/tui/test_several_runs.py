"""Several runs watched at once: over each other first, a tab each, whatever screen is shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import synthetic_run
from conftest import UTF8, Clock, settle, until
from pseudo_terminal import Terminal

from trainer.cli import main
from trainer.rundir import EndEvent, MetricEvent, ReportEvent, RunPaths
from trainer.tui.app import Dashboard
from trainer.tui.feed import Feed


@pytest.fixture
def runs(tmp_path: Path) -> list[RunPaths]:
    """Two runs in one folder, one in another; each has a report of one name, step and file, with its own number."""
    made = []
    for number, root in enumerate(("here/first", "here/second", "there/third")):
        paths = synthetic_run.write_run(tmp_path / root, epochs=2 + number)
        (paths.reports / "told.json").write_text(json.dumps({"kind": "own", "number": 100 + number}))
        synthetic_run.append(paths, ReportEvent(240, "valid", "told", "reports/told.json"), 30.0)
        synthetic_run.append(paths, EndEvent("done", 0, 240, 30.0), 30.0)
        made.append(paths)
    return made


def watching(runs: list[RunPaths], clock: Clock) -> Dashboard:
    roots = [paths.root for paths in runs]
    return Dashboard(Feed(roots[0], clock, watched=roots), environment=UTF8)


def tabs(text: str) -> str:
    return text.splitlines()[1]


async def test_they_begin_over_each_other_and_each_has_a_tab(runs: list[RunPaths], clock: Clock) -> None:
    app = watching(runs, clock)
    async with app.run_test(size=(120, 36)) as pilot:
        text = await until("C third  ✓ done", app, pilot)
        text = await until("C digits-7", app, pilot)
        while app._is_behind():
            text = await settle(app, pilot)
        text = await settle(app, pilot)
        assert "[A first] ✓ done   B second  ✓ done   C third  ✓ done" in tabs(text)
        assert "runs  3" in text and " in here" not in text
        assert all(f"{letter} digits-7" in text for letter in "ABC"), "at the right edge"


async def test_every_screen_shows_the_run_of_the_tab(runs: list[RunPaths], clock: Clock) -> None:
    runs[1].config(1).write_text("task: another  # default\n")
    app = watching(runs, clock)
    async with app.run_test(size=(120, 36)) as pilot:
        await until("C third  ✓ done", app, pilot)
        await pilot.press("4")
        await until("number 100", app, pilot)
        for key, told, shown in (("]", 101, "[B second]"), ("]", 102, "[C third]"), ("]", 100, "[A first]"),
                                 ("[", 102, "[C third]"), ("[", 101, "[B second]")):  # fmt: skip
            await pilot.press({"]": "right_square_bracket", "[": "left_square_bracket"}[key])
            assert shown in tabs(await until(f"number {told}", app, pilot))
        await pilot.press("7")
        assert "task: another" in await settle(app, pilot)
        await pilot.press("right_square_bracket")
        assert "task: digits" in await settle(app, pilot)
        await pilot.press("6")
        assert "C digits-7" in await until("A digits-7", app, pilot)  # what was marked stays so


async def test_a_click_on_a_tab_shows_its_run(runs: list[RunPaths], clock: Clock) -> None:
    app = watching(runs, clock)
    async with app.run_test(size=(120, 36)) as pilot:
        text = await until("C third  ✓ done", app, pilot)
        await pilot.press("4")
        await settle(app, pilot)
        await pilot.click(offset=(tabs(text).index("third"), 1))
        assert "[C third]" in tabs(await until("number 102", app, pilot))


async def test_a_run_that_goes_on_or_ends_in_another_tab_is_told_of(runs: list[RunPaths], clock: Clock) -> None:
    live = synthetic_run.write_run(runs[0].root.parent / "live", finished_epochs=1)
    synthetic_run.append(live, EndEvent("stopped", 0, 120, 5.0), 5.0)
    app = watching([runs[0], live], clock)
    async with app.run_test(size=(120, 36)) as pilot:
        await until("B live  ■ stopped", app, pilot)
        await pilot.press("1")
        synthetic_run.append(live, MetricEvent(130, 1.1, "train", {"loss": 1.0}), 6.0)
        synthetic_run.append(live, EndEvent("failed", 1, 130, 6.0), 6.0)
        clock.now += 10
        assert "B live  ✗ failed" in tabs(await until("B live  ✗ failed", app, pilot))


async def test_a_single_run_has_no_tabs_and_says_how_to_have_some(runs: list[RunPaths], clock: Clock) -> None:
    app = Dashboard(Feed(runs[0].root, clock), environment=UTF8)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(app, pilot)
        await pilot.press("right_square_bracket")
        text = await settle(app, pilot)
    assert "one run is watched" in text and "A first" not in text


async def test_a_key_before_the_first_frame_chooses_the_screen(runs: list[RunPaths], clock: Clock) -> None:
    app = watching(runs, clock)
    async with app.run_test(size=(120, 36)) as pilot:
        app.is_first = True
        app.show_screen("evaluation")
        app._after_first_frame()
        await pilot.pause()
        await until("number 100", app, pilot)


def test_in_a_terminal_they_are_watched_by_name_and_left_with_q(runs: list[RunPaths]) -> None:
    command = [sys.executable, "-m", "trainer.cli", "watch", "here/first", "there/third"]
    with Terminal(command, runs[0].root.parents[1], (120, 36)) as terminal:
        read = terminal.until("[A first]", "B third", "runs  2")
        terminal.press("4")
        read = terminal.until("100", since=read)
        terminal.press("]")
        read = terminal.until("102", since=read)
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.is_given_back()


@pytest.mark.parametrize("form", ["--plain", "--json"])
def test_lines_are_of_one_run(runs: list[RunPaths], form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(runs[0].root), str(runs[1].root), form]) == 2
    assert "only the dashboard can show several runs" in capsys.readouterr().err

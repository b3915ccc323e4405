"""The overview's pane of samples: on wide terminals, once a run has shown some."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic_run
from conftest import Clock, dashboard, settle, until

from trainer.rundir import RunPaths, SampleEvent
from trainer.tui.overview import Content, places
from trainer.tui.panels.newest_samples import draw_newest
from trainer.tui.pictures import read_sample
from trainer.tui.text import plain


@pytest.fixture
def shown(tmp_path: Path) -> RunPaths:
    return synthetic_run.write_run(tmp_path / "digits-7", has_shown=True)


async def test_the_newest_pictures_stand_on_a_wide_overview_and_a_click_leads_to_all(
    shown: RunPaths, clock: Clock
) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=(160, 50)) as pilot:
        text = await until("plain at 120", app, pilot)
        assert "samples  step 120" in text and "cells at 120" in text and "plain at 120" in text and "▀" in text
        pane = app.screen.query_one("#samples")
        await pilot.click(offset=(pane.region.x + 4, pane.region.y + 3))
        await until("valid/cells", app, pilot)
        await pilot.press("1")
        await until("phases", app, pilot)


async def test_it_comes_with_the_first_samples_and_has_no_place_on_a_narrow_terminal(
    tmp_path: Path, clock: Clock
) -> None:
    run = synthetic_run.write_run(tmp_path / "digits-7")
    app = dashboard(run, clock)
    async with app.run_test(size=(140, 40)) as pilot:
        assert "samples  step" not in await settle(app, pilot)
        assert "learning rate" in await settle(app, pilot)
        synthetic_run.write_shown(run, 40.0)
        assert "learning rate" not in await until("samples  step 120", app, pilot), "samples have its place"
        await pilot.resize_terminal(100, 40)
        assert "samples  step" not in await settle(app, pilot)


@pytest.mark.parametrize("size", [(100, 30), (120, 36), (203, 61)])
async def test_the_first_frame_has_every_pane_where_the_app_has_it(
    shown: RunPaths, clock: Clock, size: tuple[int, int]
) -> None:
    app = dashboard(shown, clock)
    async with app.run_test(size=size) as pilot:
        await until("samples  step 120" if size[0] >= 120 else "valid/accuracy", app, pilot)
        content = Content.of(app.feed.view)
        for name, place in places(*size, content).items():
            region = app.screen.query_one(f"#{name}").region
            assert (region.x, region.y, region.width, region.height) == place, name
    assert ("samples" in places(*size, content)) == (size[0] >= 120)


async def test_texts_and_files_that_are_gone_are_told_of(shown: RunPaths, clock: Clock) -> None:
    synthetic_run.append(shown, SampleEvent(130, "valid", "gone", "samples/gone.png"), 40.0)
    synthetic_run.append(shown, SampleEvent(130, "valid", "said", "samples/step-120/words.txt"), 40.0)
    app = dashboard(shown, clock)
    frame = app.frame()
    lines = plain(
        draw_newest(frame._replace(is_first=False), 60, 8, lambda event: read_sample(shown.root / event.file))
    )
    assert "can't be read" in lines and "to be or not to be," in lines
    assert draw_newest(frame, 60, 8, lambda event: None) == []  # the first frame waits for nothing

"""The sweep screen: trials, the best metric so far, importance; and where there is no sweep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import synthetic_run
from conftest import UTF8, Clock, settle, until

from trainer.rundir.sweeps import SweepPaths, SweepState, Trial, write_state
from trainer.tui.app import Dashboard
from trainer.tui.feed import Feed
from trainer.tui.panels.sweep import best_so_far, summary, trial_rows

RATE, KIND = "optimizer.learning_rate", "options.kind"
TRIALS = [
    Trial(0, "complete", {RATE: 0.1, KIND: "a"}, 0.5),
    Trial(1, "pruned", {RATE: 0.2, KIND: "b"}, 0.25),
    Trial(2, "complete", {RATE: 0.001, KIND: "b"}, 0.75),
    Trial(3, "failed", {RATE: 0.003, KIND: "b"}, None, "no memory\nmore"),
    Trial(4, "complete", {RATE: 0.01, KIND: "a"}, 0.625),
    Trial(5, "running", {RATE: 0.02, KIND: "a"}),
]
STATE = SweepState("valid/accuracy", "max", "halving", 8, 1, [RATE], TRIALS, {RATE: 0.75, KIND: 0.25})


@pytest.fixture
def sweep(tmp_path: Path) -> SweepPaths:
    paths = SweepPaths(tmp_path / "night")
    for number in range(3):
        synthetic_run.write_run(paths.run(number, 0, 1).root, epochs=1)
    paths.config.touch()
    write_state(paths, STATE)
    return paths


def test_complete_trials_come_first_the_best_one_marked() -> None:
    rows = trial_rows(STATE)
    assert [row.item.number for row in rows] == [2, 4, 0, 5, 3, 1] and [row.mark for row in rows] == ["*"] + [""] * 5
    assert rows[4].cells == ("3", "failed", "-", "0.003", "b", "no memory")
    assert [row.item.number for row in trial_rows(STATE, "failed")] == [3]
    assert summary(STATE) == "halving  6 of 8 trials  3 complete, 1 running, 1 pruned, 1 failed"


def test_the_chart_has_the_best_metric_so_far() -> None:
    chart = best_so_far(STATE)
    assert chart is not None
    trials, best = (layer.series for layer in chart.layers)
    assert (list(trials.steps), list(trials.values)) == ([0, 2, 4], [0.5, 0.75, 0.625])
    assert (list(best.steps), list(best.values)) == ([0, 2, 4, 5], [0.5, 0.75, 0.75, 0.75])
    lowest = best_so_far(replace(STATE, mode="min"))
    assert lowest is not None and list(lowest.layers[1].series.values) == [0.5, 0.5, 0.5, 0.5]
    assert best_so_far(replace(STATE, trials=[])) is None


async def test_a_watched_sweep_begins_with_its_trials(sweep: SweepPaths, clock: Clock) -> None:
    app = Dashboard(Feed(sweep.run(0, 0, 1).root, clock), environment=UTF8, begins_with_sweep=True)
    async with app.run_test(size=(80, 24)) as pilot:
        text = await until("night  halving  6 of 8 trials", app, pilot)
        assert "valid/accuracy, best so far" in text and "learning_rate  75%" in text
        write_state(sweep, replace(STATE, trials=[*TRIALS, Trial(6, "complete", {RATE: 0.5, KIND: "c"}, 0.875)]))
        await until("7 of 8 trials", app, pilot)
        await pilot.press("down", "enter")  # the second best, after the new one
        text = await settle(app, pilot)
        assert app.feed.paths.name == "trial-2"


async def test_a_run_without_a_sweep_says_so(tmp_path: Path, clock: Clock) -> None:
    paths = synthetic_run.write_run(tmp_path / "alone", epochs=1)
    app = Dashboard(Feed(paths.root, clock), environment=UTF8)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("8")
        await until("this run is not part of a sweep", app, pilot)

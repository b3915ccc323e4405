"""The overview's parts: nested phases, the table of metrics, and the places of the boxes."""

from __future__ import annotations

import itertools

import pytest
import synthetic_run

from trainer.rundir import EndEvent, MetricEvent, PhaseEvent, Record
from trainer.tui.frame import Frame
from trainer.tui.glyphs import UNICODE
from trainer.tui.overview import Content, body_places
from trainer.tui.panels.metric_table import draw_metric_table
from trainer.tui.panels.phases import draw_phases, tree_of
from trainer.tui.status import RUNNING
from trainer.tui.text import plain
from trainer.tui.view import View


def view_of(*events: tuple[float, object], leading: str | None = None) -> View:
    view = View("run", leading=leading)
    for at, event in events:
        view.apply(Record(event, synthetic_run.START + at, at, 1))  # type: ignore[arg-type]
    return view


def frame(view: View) -> Frame:
    return Frame(view, RUNNING, synthetic_run.START + 100, UNICODE)


PHASES = [
    (0.0, PhaseEvent("config", "finished")),
    (1.0, PhaseEvent("data", "started")), (2.0, PhaseEvent("data", "finished")),
    (2.0, PhaseEvent("compile", "started", 0, 61)), (3.0, PhaseEvent("compile", "finished", 61, 61)),
    (4.0, PhaseEvent("train", "started", 0, 8)),
    (9.0, PhaseEvent("validate", "started")), (10.0, PhaseEvent("validate", "finished")),
    (12.0, PhaseEvent("autotune", "started", 0, 5)),
]  # fmt: skip


def test_phases_are_nested_under_their_parent() -> None:
    setup, train = tree_of(view_of(*PHASES).phases)
    assert setup.phase.name == "setup" and [phase.name for phase in setup.children] == ["config", "data", "compile"]
    assert setup.phase.seconds(0) == 3.0 and not setup.phase.is_active
    assert train.phase.name == "train" and [phase.name for phase in train.children] == ["validate", "autotune"]


def test_the_setup_is_in_progress_between_two_preparations_until_another_phase_follows_or_one_failed() -> None:
    for end, state in (("finished", "progress"), ("failed", "failed")):
        (setup,) = tree_of(view_of((0.0, PhaseEvent("config", end))).phases)  # type: ignore[arg-type]
        assert setup.phase.state == state


def test_a_phase_after_the_training_stands_alone() -> None:
    after = [(20.0, PhaseEvent("train", "finished")), (21.0, PhaseEvent("test", "started"))]
    assert [node.phase.name for node in tree_of(view_of(*PHASES, *after).phases)] == ["setup", "train", "test"]


def test_finished_phases_are_folded_where_the_panel_is_low() -> None:
    tall = plain(draw_phases(frame(view_of(*PHASES)), 40, 9)).splitlines()
    assert [line.split()[1] for line in tall] == [
        "setup", "config", "data", "compile", "train", "validate", "autotune",
    ]  # fmt: skip
    assert tall[1].startswith("  ✓ config") and tall[4].startswith("● train")
    low = plain(draw_phases(frame(view_of(*PHASES)), 40, 3)).splitlines()
    assert [line.split()[1] for line in low] == ["setup", "train", "autotune"] and "3 phases" in low[0]


def metrics(leading: str | None = "valid/accuracy") -> View:
    return view_of(
        *((float(step), MetricEvent(step, step / 10, "train", {"loss": 1.0, "accuracy": 0.5, "learning_rate": 0.1}))
          for step in range(1, 31)),
        (31.0, MetricEvent(10, 1.0, "valid", {"loss": 0.7, "accuracy": 0.8})),
        (32.0, MetricEvent(20, 2.0, "valid", {"loss": 0.6, "accuracy": 0.9})),
        (33.0, MetricEvent(30, 3.0, "valid", {"loss": 0.65, "accuracy": 0.85})),
        leading=leading,
    )  # fmt: skip


def test_the_table_has_latest_and_best_values_the_primary_metric_first() -> None:
    rows = [line.split() for line in plain(draw_metric_table(frame(metrics()), 60, 9)).splitlines()]
    assert rows == [
        ["metric", "train", "valid", "best", "epoch"],
        ["accuracy", "0.5", "0.85", "0.9", "2"],
        ["loss", "1", "0.65", "0.6", "2"],
        ["learning_rate", "0.1", "-", "-", "-"],
    ]


def test_final_metrics_of_the_test_split_have_a_column() -> None:
    view = metrics()
    view.apply(Record(EndEvent("done", 0, metrics={"test/accuracy": 0.87}), synthetic_run.START + 40, 40.0, 1))
    assert plain(draw_metric_table(frame(view), 60, 9)).splitlines()[1].split()[-1] == "0.87"


def test_metrics_that_do_not_fit_are_counted() -> None:
    view = view_of((1.0, MetricEvent(1, 0.1, "train", {f"m{index}": float(index) for index in range(20)})))
    lines = plain(draw_metric_table(frame(view), 40, 6)).splitlines()
    assert len(lines) == 6 and lines[-1] == "and 16 more: 2 has all of them"


@pytest.mark.parametrize(("width", "height"), [(80, 16), (80, 20), (100, 32), (120, 32), (200, 56), (500, 196)])
def test_boxes_fill_the_body_without_gaps_and_without_overlaps(width: int, height: int) -> None:
    for *counts, has_samples in itertools.product((0, 1, 8), (0, 4, 101), (0, 5), (0, 3, 1000), (True, False)):
        places = body_places(width, height, Content(*counts, has_samples=has_samples))
        cells = [(x + column, y + row) for x, y, columns, rows in places.values()
                 for column in (0, columns - 1) for row in range(rows)]  # fmt: skip
        assert len(cells) == len(set(cells))
        assert all(columns >= 18 and rows >= 3 for _, _, columns, rows in places.values())
        assert sum(columns * rows for _, _, columns, rows in places.values()) == width * height

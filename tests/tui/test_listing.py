from __future__ import annotations

import math

import numpy as np

from trainer.tui.charts import Window
from trainer.tui.glyphs import UNICODE
from trainer.tui.listing import Column, Row, TableState, draw_table, ordered
from trainer.tui.panels.metrics import MetricsState, grid_of
from trainer.tui.panels.samples import grid_for
from trainer.tui.raster import running_average
from trainer.tui.text import line_width, plain

COLUMNS = (Column("name"), Column("value", is_number=True), Column("note", rank=1))
ROWS = [
    Row((name, str(value), "note"), (name, value, "note")) for name, value in (("b", 2.0), ("a", math.nan), ("c", 1.0))
]


def test_rows_without_a_value_come_last_whichever_way_round() -> None:
    names = [[row.cells[0] for row in ordered(ROWS, TableState(0, 1, way))] for way in (False, True)]
    assert names == [["c", "b", "a"], ["b", "c", "a"]]
    assert [row.cells[0] for row in ordered(ROWS, TableState(is_reversed=True))] == ["c", "a", "b"]


def test_sorting_goes_through_the_columns_and_back_to_none() -> None:
    states = [TableState()]
    for _ in range(4):
        states.append(states[-1].sorted_by_next(3))
    assert [state.column for state in states] == [-1, 0, 1, 2, -1]


def test_columns_of_high_rank_give_way() -> None:
    wide, narrow = (plain(draw_table(COLUMNS, ROWS, TableState(), width, 9, UNICODE)) for width in (40, 16))
    assert "note" in wide and "note" not in narrow and "value" in narrow


def test_the_selected_row_stays_in_sight() -> None:
    rows = [Row((str(index), "", ""), ()) for index in range(100)]
    for selected in (0, 50, 99):
        lines = draw_table(COLUMNS, rows, TableState(selected), 40, 10, UNICODE)
        assert f"▶{selected}" in plain(lines) and len(lines) == 10 and max(map(line_width, lines)) <= 40


def test_a_running_average_equals_its_recurrence() -> None:
    values = np.random.default_rng(0).normal(size=5000)
    values[[0, 7, 4000]] = math.nan
    for factor in (0.9, 0.99):
        average, weight, expected = 0.0, 0.0, []
        for value in values.tolist():
            if math.isfinite(value):
                average, weight = factor * average + (1 - factor) * value, factor * weight + (1 - factor)
            expected.append(average / weight if weight else math.nan)
        np.testing.assert_allclose(running_average(values, factor), expected, rtol=1e-9, atol=1e-12)


def test_zooming_in_and_out_again_shows_all_steps() -> None:
    state = MetricsState().pointed(0, 1000).pointed(-0.5, 1000)
    assert state.window == Window(cursor=500)
    zoomed = state.zoomed(0.5, 1000).zoomed(0.5, 1000)
    assert (zoomed.window.start, zoomed.window.end) == (375, 625)
    assert zoomed.panned(-9, 1000).window.start == 0 and zoomed.panned(9, 1000).window.end == 1000
    assert zoomed.zoomed(2, 1000).zoomed(2, 1000).window == Window(cursor=500)
    assert state.panned(1, 1000) == state  # all steps are shown already


def test_grids_use_the_room() -> None:
    assert [grid_of(count, 160, 50) for count in (1, 2, 6, 100)] == [(1, 1), (2, 1), (4, 2), (4, 5)]
    assert grid_of(3, 30, 8) == (1, 1)
    assert grid_for(1, 100, 40) == (1, 1) and grid_for(4, 160, 40)[0] in (2, 4) and grid_for(9, 20, 40)[0] == 1
    assert grid_for(6, 140, 42) == (3, 2) and grid_for(6, 140, 42, shape=3) == (2, 3)  # input | output | target


def test_texts_are_cut_before_a_number_is() -> None:
    columns = (Column("name", most=30), Column("shape", most=44), Column("share", is_number=True), Column("gain", True))
    rows = [Row(("n" * 28, "s" * 40, "12.5%", "1.36x"), ())]
    for width in (76, 60, 40):
        header, line = draw_table(columns, rows, TableState(), width, 2, UNICODE)
        text = plain([line])
        assert "12.5%" in text and "1.36x" in text and line_width(line) <= width + 2 and "share" in plain([header])
    assert "n" * 28 in plain(draw_table(columns, rows, TableState(), 76, 2, UNICODE)), "the widest gives way"

from __future__ import annotations

import numpy as np
import pytest

from trainer.tui.raster import Columns, braille_cells, connect, fill, reduce_columns, rows_of


def brute_force(x: list[float], y: list[float], start: float, end: float, columns: int) -> list[list[float]]:
    """Column by column and point by point: first, last, lowest, highest."""
    found: list[list[float]] = []
    for column in range(columns):
        left = start + column * ((end - start) / columns)
        right = start + (column + 1) * ((end - start) / columns)
        is_last = column == columns - 1
        inside = [
            value
            for position, value in sorted(zip(x, y, strict=True), key=lambda pair: pair[0])
            if np.isfinite(value) and left <= position and (position < right or (is_last and position <= end))
        ]
        found.append([inside[0], inside[-1], min(inside), max(inside)] if inside else [np.nan] * 4)
    return found


@pytest.mark.parametrize("points", [0, 1, 7, 500])
@pytest.mark.parametrize("columns", [1, 5, 40])
@pytest.mark.parametrize("in_order", [True, False])
def test_columns_equal_a_search_through_all_points(points: int, columns: int, in_order: bool) -> None:
    generator = np.random.default_rng(points + columns)
    x = generator.uniform(0, 100, points)
    x = np.sort(x) if in_order else x
    y = generator.normal(size=points)
    if points:
        x[-1] = 100.0 if in_order else x[-1]
        y[points // 2] = np.nan
    found = reduce_columns(x, y, 0.0, 100.0, columns)
    wanted = np.array(brute_force(x.tolist(), y.tolist(), 0.0, 100.0, columns)).reshape(columns, 4)
    np.testing.assert_array_equal(np.stack([found.first, found.last, found.low, found.high], axis=1), wanted)


def test_a_connected_line_has_no_holes_and_covers_its_points() -> None:
    nan = np.nan
    low = np.array([nan, 4.0, nan, nan, 1.0, 3.0, nan])
    columns = Columns(first=low.copy(), last=low.copy(), low=low.copy(), high=low.copy())
    bottom, top = connect(columns)
    inside = slice(1, 6)
    assert np.isnan(bottom[[0, 6]]).all() and not np.isnan(bottom[inside]).any()
    assert (bottom[inside][:-1] <= top[inside][1:]).all() and (bottom[inside][1:] <= top[inside][:-1]).all()
    # Points 1 and 4 are joined by a straight line: 3 and 2 in the empty columns, neighbours meeting half way.
    np.testing.assert_allclose(bottom[inside], [3.5, 2.5, 1.5, 1.0, 2.0])
    np.testing.assert_allclose(top[inside], [4.0, 3.5, 2.5, 2.0, 3.0])


def test_filled_dots_equal_a_loop_over_cells() -> None:
    low = np.array([0.0, 0.25, np.nan, -5.0])
    high = np.array([0.0, 0.75, np.nan, 9.0])
    dots = fill(low, high, 0.0, 1.0, 5)
    wanted = [[0, 0, 0, 1], [0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 0, 1], [1, 0, 0, 1]]
    np.testing.assert_array_equal(dots, np.array(wanted, bool))
    np.testing.assert_array_equal(rows_of(np.array([0.0, 1.0, np.nan]), 0.0, 1.0, 5), [4, 0, -1])


def test_braille_dots_are_numbered_as_unicode_numbers_them() -> None:
    # The Unicode standard, block 2800: dots 1 2 3 7 down the left column, 4 5 6 8 down the right.
    order = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (3, 1)]
    for bit, (row, column) in enumerate(order):
        dots = np.zeros((8, 4), bool)
        dots[4 + row, 2 + column] = True
        cells = braille_cells(dots)
        assert cells[1, 1] == 1 << bit
        assert np.count_nonzero(cells) == 1


def test_the_cross_hair_moves_without_painting_the_chart_again(monkeypatch: pytest.MonkeyPatch) -> None:

    from trainer.tui import plot
    from trainer.tui.charts import WHOLE, Chart, Layer
    from trainer.tui.glyphs import UNICODE
    from trainer.tui.series import Series

    series = Series()
    for step in range(200):
        series.append(step, float(step % 17))
    painted: list[str] = []
    paint = plot.paint
    monkeypatch.setattr(plot, "paint", lambda *given: painted.append("") or paint(*given))

    def draw(cursor: float | None, width: int = 60) -> list[object]:
        chart = Chart("loss", (Layer("loss", series, "line", "train"),), window=WHOLE._replace(cursor=cursor))
        return list(plot.draw_chart(chart, width, 12, UNICODE))

    without = draw(None)
    at = [draw(float(step)) for step in (20, 90, 170)]
    assert len(painted) == 1 and all(lines != without for lines in at) and at[0] != at[1] != at[2]
    assert draw(None) == without and len(painted) == 1
    assert draw(90.0, 61) != at[1] and len(painted) == 2
    series.append(200, 30.0)
    assert draw(None) != without and len(painted) == 3
    plot._plots.clear()
    assert draw(90.0) == draw(90.0) and len(painted) == 4

"""What a chart shows besides its lines: ticks, a robust range, markers, a legend, current values."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from trainer.rundir import MetricEvent, Record
from trainer.tui.axes import log_ticks, ticks
from trainer.tui.chart_values import resolved
from trainer.tui.charts import WHOLE, Chart, Layer, loss_chart, metric_charts, rate_chart, valid_chart
from trainer.tui.glyphs import ASCII, UNICODE
from trainer.tui.plot import draw_chart
from trainer.tui.ranges import robust_range
from trainer.tui.raster import point_dots
from trainer.tui.series import Series
from trainer.tui.text import plain
from trainer.tui.view import View


def series_of(values: Iterable[float]) -> Series:
    series = Series()
    for step, value in enumerate(values):
        series.append(step, value)
    return series


def chart_of(values: Iterable[float], **options: object) -> Chart:
    return Chart("loss", (Layer("train", series_of(values), "line", "train"),), **options)  # type: ignore[arg-type]


def drawn(chart: Chart, width: int = 80, height: int = 20) -> list[str]:
    return plain(draw_chart(chart, width, height, UNICODE)).splitlines()


def labels(lines: list[str]) -> list[float]:
    return [float(line.partition("┤")[0]) for line in lines if "┤" in line]


@pytest.mark.parametrize(
    ("low", "high", "count", "wanted"),
    [(0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]), (0, 3, 2, [0, 2]), (-1, 1, 3, [-1, 0, 1]), (0.8, 1, 3, [0.8, 0.9, 1])],
)
def test_ticks_are_round_numbers_within_the_axis(low: float, high: float, count: int, wanted: list[float]) -> None:
    assert ticks(low, high, count) == pytest.approx(wanted)


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 7), (1e-9, 4e-9), (123, 124), (0, 1e12)])
def test_there_are_as_many_ticks_as_asked_for_and_not_many_more(low: float, high: float, count: int) -> None:
    assert count <= len(ticks(low, high, count)) <= 2.5 * count + 1


def test_ticks_of_a_logarithmic_axis_are_powers_of_ten_or_more_where_those_are_few() -> None:
    assert log_ticks(-3, 1, 3) == pytest.approx([1e-3, 1e-2, 0.1, 1, 10])
    assert log_ticks(-1, 0.31, 4) == pytest.approx([0.1, 0.2, 0.5, 1, 2])
    assert log_ticks(0.31, 0.34, 2) == pytest.approx([2.05, 2.1, 2.15])


@pytest.mark.parametrize(("height", "least"), [(6, 2), (12, 2), (30, 5), (56, 9)])
def test_a_taller_chart_has_more_ticks(height: int, least: int) -> None:
    found = labels(drawn(chart_of(math.exp(-step / 50) for step in range(200)), height=height))
    assert least <= len(found) <= height / 2 and found == sorted(found, reverse=True)


def test_the_first_transient_does_not_flatten_the_rest_and_is_marked_at_the_edge() -> None:
    values = [900.0, 400.0, 90.0] + [1.0 + 0.5 * math.sin(step / 9) for step in range(200)]
    robust, whole = drawn(chart_of(values)), drawn(chart_of(values, window=WHOLE._replace(is_robust=False)))
    assert max(labels(robust)) <= 2 and "▲" in robust[0] and "▲ outside the range" in robust[-1]
    assert max(labels(whole)) >= 900 and "▲" not in "".join(whole)


@pytest.mark.parametrize("decay", [20, 50, 100])
def test_a_range_without_outliers_keeps_an_ordinary_curve_whole(decay: float) -> None:
    values = np.array([2.2 * math.exp(-step / decay) + 0.05 for step in range(3 * int(decay))])
    assert robust_range(values) == (values.min(), values.max())


def test_one_outlier_among_ten_values_is_left_out_and_among_few_it_is_not() -> None:
    assert robust_range(np.array([100.0, *(1.0 + 0.1 * index for index in range(9))])) == (1.0, pytest.approx(1.8))
    assert robust_range(np.array([100.0, 1.0, 1.1, 1.2])) == (1.0, 100.0)
    assert robust_range(np.full(20, 3.0)) == (3.0, 3.0)


def test_values_that_are_not_finite_are_marked() -> None:
    values = [1.0 - step / 400 for step in range(200)]
    values[100:150] = [math.nan] * 50
    lines = drawn(chart_of(values))
    assert 10 <= lines[-2].count("×") <= 25 and "× not finite" in lines[-1]
    assert "x not finite" in plain(draw_chart(chart_of(values), 80, 20, ASCII))


def test_points_are_drawn_at_the_resolution_of_the_lines() -> None:
    dots = point_dots(np.array([math.nan, 0.5, math.nan, 0.0]), 0.0, 1.0, 5)
    assert [tuple(place) for place in np.argwhere(dots)] == [(2, 1), (2, 2), (3, 1), (3, 2), (4, 3)]
    series = series_of([0.5] * 9)
    chart = Chart("accuracy", (Layer("valid", series, "points", "valid"),))
    assert "●" not in "".join(drawn(chart)) and any("⠀" < character <= "⣿" for character in "".join(drawn(chart)))


def test_the_right_edge_names_each_line_and_its_current_value() -> None:
    layers = [Layer(name, series_of([value] * 50), "line", "train") for name, value in (("train", 0.2), ("valid", 0.8))]
    lines = drawn(Chart("loss", tuple(layers)))
    high, low = (
        next(row for row, line in enumerate(lines) if text in line) for text in ("0.8     valid", "0.2     train")
    )
    assert high < low


def test_values_that_collide_at_the_right_edge_move_apart() -> None:
    layers = [Layer(f"run {index}", series_of([0.5, 0.5]), "line", "train") for index in range(4)]
    text = "\n".join(drawn(Chart("loss", tuple(layers)), height=8))
    assert all(text.count(f"0.5     run {index}") == 1 for index in range(4))


def test_a_narrow_chart_has_a_legend_instead() -> None:
    layers = [Layer(name, series_of([0.25, 0.5]), "line", "train") for name in ("train", "valid")]
    first, *rest = drawn(Chart("loss", tuple(layers)), width=30, height=10)
    assert first.strip() == "⠤⠤ train 0.5  ⠤⠤ valid 0.5" and len(rest) == 9


def test_a_loss_that_spans_decades_has_a_logarithmic_scale_and_an_accuracy_has_none() -> None:
    view = View("run")
    for step in range(1, 200):
        values = {"loss": 10 ** (1 - step / 40), "accuracy": 10 ** (-step / 40), "other_loss": 2 - step / 200}
        view.apply(Record(MetricEvent(step, step / 10, "train", values), step, step, 1))
    chart = loss_chart(view)
    assert chart is not None and resolved(chart).log_scale
    charts = {chart.title: resolved(chart).log_scale for chart in metric_charts(view)}
    assert charts == {"loss": True, "accuracy": False, "other_loss": False}
    assert all(resolved(chart).log_scale for chart in metric_charts(view, log_scale=True))


def test_a_learning_rate_that_decays_to_zero_keeps_a_readable_axis() -> None:
    view = View("run")
    for step in range(1, 1001):
        rate = 0.5e-3 * (1 + math.cos(math.pi * step / 1000))
        view.apply(Record(MetricEvent(step, step / 100, "train", {"learning_rate": rate}), step, step, 1))
    chart = rate_chart(view)
    assert chart is not None and resolved(chart).log_scale
    found = labels(drawn(chart))
    assert 1e-7 < min(found) <= 1e-5 and max(found) == 1e-3 and "▼" in drawn(chart)[-2]


def test_a_logarithmic_scale_marks_values_that_it_can_not_show() -> None:
    lines = drawn(chart_of([1.0, 10.0, 0.0, 100.0, 1000.0], log_scale=True))
    assert "▼" in lines[-2] and labels(lines) == [1000, 100, 10, 1]


def test_a_value_at_the_right_edge_is_shortened_by_digits_not_to_another_value() -> None:
    assert any(line.rstrip().endswith("0.00982 train") for line in drawn(chart_of([0.0098244] * 50)))


def test_the_second_chart_does_not_repeat_the_loss() -> None:
    view = View("run", leading="valid/loss")
    for step in (1, 2):
        view.apply(Record(MetricEvent(step, 0.1, "valid", {"loss": 1.0, "accuracy": 0.5}), step, step, 1))
    chart = valid_chart(view)
    assert chart is not None and chart.title.startswith("valid/accuracy")


def test_steps_have_ticks_where_there_is_room() -> None:
    assert drawn(chart_of(range(1001)), width=100)[-1].split() == ["└0", "200", "400", "600", "800", "step", "1000"]
    assert drawn(chart_of(range(1001)), width=30)[-1].split() == ["└0", "step", "1000"]

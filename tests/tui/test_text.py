from __future__ import annotations

import pytest

from trainer.tui.ansi import place
from trainer.tui.box import boxed
from trainer.tui.glyphs import ASCII, UNICODE
from trainer.tui.numbers import duration, number, plural, rate, size
from trainer.tui.panel import changed_regions
from trainer.tui.text import cell_width, crop, crop_line, fit_title, line_width, plain, printable, spread, visible, wrap


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m alert", "red alert"),
        ("\x1b]0;title\x07text", "text"),
        ("10 %\r50 %\r100 %", "100 %"),
        ("bell\x07 back\x08", "bell back"),
        ("a\tb", "a   b"),
        ("naïve ✓", "naïve ✓"),
        ("\x1b[2J\x1b]52;c;ZXZpbA==\x1b\\safe", "safe"),
    ],
)
def test_foreign_text_can_not_steer_the_terminal(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_width_counts_cells_not_characters() -> None:
    assert cell_width("abc") == 3 and cell_width("日本") == 4 and cell_width("⠿●│") == 3 and cell_width("é") == 1
    assert crop("日本語", 5, "…") == "日本…"
    line = (("日本", "a"), ("xyz", "b"))
    for width in range(1, 9):
        assert line_width(crop_line(line, width, "…")) <= width
    assert crop_line(line, 7, "…") == line


def test_wrapping_loses_nothing() -> None:
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"] and wrap("", 5) == [""]
    assert wrap("日本語", 3) == ["日", "本", "語"]


def test_wrapping_keeps_words_together_where_lines_stay_well_filled() -> None:
    assert wrap("valid/loss 0.02 valid/accuracy", 20) == ["valid/loss 0.02 ", "valid/accuracy"]
    assert wrap("abcd efgh", 4) == ["abcd", "efgh"]
    assert wrap("a /home/someone/runs", 10) == ["a /home/so", "meone/runs"]


def test_a_spread_line_fills_its_width_and_keeps_its_right_end() -> None:
    line = spread((("a long left end", "text"),), (("right", "text"),), 14, "…")
    assert plain([line]) == "a long … right" and line_width(line) == 14


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("size", [(20, 5), (4, 2), (3, 3), (60, 3)])
def test_a_box_has_exactly_its_size(glyphs: object, size: tuple[int, int]) -> None:
    lines = boxed([(("content", "text"),)] * 9, "a title", *size, glyphs)  # type: ignore[arg-type]
    assert len(lines) == max(2, size[1])
    if size[0] >= 4:
        assert {line_width(line) for line in lines} == {size[0]}


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (40, "loss  train 0.05326  valid 12.3456"),
        (32, "loss  train 0.0533  valid 12.3"),
        (29, "loss  train 0.05326"),
        (18, "loss  train 0.0533"),
        (17, "loss"),
        (3, "lo…"),
    ],
)
def test_a_title_gives_way_by_whole_parts_and_never_within_a_number(width: int, told: str) -> None:
    assert fit_title("loss  train 0.05326  valid 12.3456", width, "…") == told


def test_numbers_in_titles_are_rounded_where_that_keeps_what_they_say() -> None:
    assert fit_title("a 0.99996  step 12345.6  v1.2.3  x", 30, "…") == "a 1  step 12345.6  v1.2.3  x"


def test_only_the_cells_that_changed_are_repainted() -> None:
    before = [(("step ", "dim"), ("100", "text"), (" it/s", "dim")), (("same", "text"),)]
    after = [(("step ", "dim"), ("104", "text"), (" it/s", "dim")), (("same", "text"),)]
    (region,) = changed_regions(before, after, 40)
    assert (region.x, region.y, region.width, region.height) == (7, 0, 1, 1)
    assert changed_regions(before, before, 40) == []


def test_numbers_are_short() -> None:
    assert [duration(value) for value in (0.02, 0.4, 48, 187, 4320, 187_200)] == [
        "20 ms", "0.4 s", "48 s", "3:07", "1h12", "2d04h"]  # fmt: skip
    assert [number(value) for value in (0.12345, 12, 1.23e-5, float("nan"), -0.5)] == [
        "0.1235", "12", "1.2e-05", "nan", "-0.5"]  # fmt: skip
    assert [size(value) for value in (512, 3_400_000, 1.2e9)] == ["512 B", "3.4 MB", "1.2 GB"]
    assert [plural(unit) for unit in ("step", "batch", "epochs")] == ["steps", "batches", "epochs"]
    assert [rate(value) for value in (41.23, 1234, 0.523)] == ["41.2", "1234", "0.52"]


def test_a_span_reaches_a_terminal_without_what_it_would_obey():
    hostile = "a\x1b[31mb\x9bc\u202ed\ud800"
    assert visible(hostile) == "a?[31mb?c?d?"
    drawn = place([(0, 0, ((hostile, "text"),))], {"text": ""}, "none", on_empty=False)  # type: ignore[arg-type]
    assert "\x1b[31m" not in drawn and "a?[31mb" in drawn

"""What is written when parts of the screen change: those cells alone, at their places."""

from __future__ import annotations

import re

from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from trainer.tui.panel import changed_regions
from trainer.tui.text import Line
from trainer.tui.update import NarrowUpdate

_PLACE = re.compile(r"\x1b\[(\d+);(\d+)H")


def cells(text: str) -> dict[tuple[int, int], str]:
    """What is written by line and column, from 0."""
    _, *parts = _PLACE.split(text)
    return {
        (int(line) - 1, int(column) - 1 + index): character
        for line, column, told in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        for index, character in enumerate(told)
    }


def test_nothing_but_the_changed_cells_of_each_widget_is_written() -> None:
    lines = (
        {0: Strip([Segment("abcdefghij")]), 10: Strip([Segment("klm"), Segment("nop")])},
        {0: Strip([Segment("q" * 16)])},
    )
    update = ChopsUpdate(lines, [(0, 3, 5), (0, 9, 12), (0, 15, 40), (1, 0, 16)], [[10, 16], [16]])
    written = cells(NarrowUpdate(update).render_segments(Console()))
    want = {(0, 3): "d", (0, 4): "e", (0, 9): "j", (0, 10): "k", (0, 11): "l", (0, 15): "p"}
    assert written == want | {(1, x): "q" for x in range(16)}


def test_a_wide_character_that_is_cut_leaves_a_blank() -> None:
    update = ChopsUpdate(({0: Strip([Segment("a\N{CJK UNIFIED IDEOGRAPH-4E00}b")])},), [(0, 2, 4)], [[4]])
    assert cells(NarrowUpdate(update).render_segments(Console())) == {(0, 2): " ", (0, 3): "b"}


def regions(before: Line, after: Line) -> list[tuple[int, int]]:
    return [(region.x, region.right) for region in changed_regions([before], [after], 40)]


def test_what_moves_in_a_line_leaves_the_cells_between_alone() -> None:
    before: Line = (("|", "dim"), (" " * 30, "text"))
    after: Line = ((" " * 20, "text"), ("|", "dim"), (" " * 10, "text"))
    assert regions(before, after) == [(0, 1), (20, 21)]
    near: Line = ((" " * 4, "text"), ("|", "dim"), (" " * 26, "text"))
    assert regions(before, near) == [(0, 5)]  # to go on from there would be as many bytes


def test_a_line_that_becomes_shorter_is_written_to_its_end() -> None:
    assert regions((("abcdef", "text"),), (("abc", "text"),)) == [(3, 6)]
    assert regions((("abc", "text"),), ()) == [(0, 3)]


def test_wide_and_combined_characters_are_known_by_their_cells() -> None:
    wide = "\N{CJK UNIFIED IDEOGRAPH-4E00}"
    assert regions(((f"{wide}b", "text"),), ((f"{wide}c", "text"),)) == [(2, 3)]
    assert regions((("aeb", "text"),), (("ae\N{COMBINING ACUTE ACCENT}b", "text"),)) == [(1, 2)]
    assert regions(((f"a{wide}", "text"),), ((f"{wide}a", "text"),)) == [(0, 3)]

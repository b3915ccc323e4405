"""The page of results, and the figures that texts take from them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from published import differing, filled, page

LINE = {
    "name": "mlp", "ours": 1.25, "peer": 2.0, "ratio": 1.6, "bar": 2.0, "ok": False, "unit": "ms",
    "spread": [1.5, 1.7], "command": "python benchmarks/steps.py --peer-python PYTHON mlp", "date": "2026-01-01",
    "revision": "abc", "machine": {"processor": "P", "threads": 2, "memory": 8, "system": "Linux"},
    "versions": {"python": "3.11"}, "peer_versions": {"torch": "2"},
}  # fmt: skip


def test_texts_have_the_figures_that_were_recorded() -> None:
    names = [file.name for file in differing(write=False)]
    assert names == [], "python benchmarks/published.py"


def test_a_marked_figure_is_replaced_and_one_that_was_not_recorded_is_refused() -> None:
    text = "takes <!-- figure: steps mlp ratio .1% -->99%<!-- end --> of it"
    assert filled(text, {"steps": {"mlp": LINE}}) == text.replace("99%", "160.0%")
    with pytest.raises(ValueError, match=r"steps mlp ratio: found no such figure.*--record"):
        filled(text, {})


def test_the_page_has_a_command_for_each_table_and_marks_what_was_missed() -> None:
    text = page({"steps": {"mlp": LINE}})
    assert "python benchmarks/steps.py --peer-python PYTHON\n" in text
    assert "| `mlp` | 1.25 ms | 2 ms | 1.600 (1.500 to 1.700) | 2 | **missed** | 2026-01-01 | abc |" in text

"""The page of results, and the figures that texts take from them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import published
import recipes
from published import differing, filled, page

LINE = {
    "name": "mlp", "ours": 1.25, "peer": 2.0, "ratio": 1.6, "bar": 2.0, "ok": False, "unit": "ms",
    "spread": [1.5, 1.7], "command": "python benchmarks/steps.py --peer-python PYTHON mlp", "date": "2026-01-01",
    "revision": "abc", "machine": {"processor": "P", "threads": 2, "memory": 8, "system": "Linux",
                                  "lowering": {"vectors": 8}},
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
    assert filled(text, {"steps": {"mlp": {**LINE, "ratio": 2}}}) == text.replace("99%", "200.0%")
    for other in (None, True):
        with pytest.raises(ValueError, match="found no such figure"):
            filled(text, {"steps": {"mlp": {**LINE, "ratio": other}}})


def test_a_recorded_output_is_inserted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "OUTPUTS", tmp_path)
    (tmp_path / "one.md").write_text("| a |\n")
    (tmp_path / "other.txt").write_text("a\n")
    text = "<!-- output: one -->\nold\n<!-- end -->, <!-- output: other -->\n<!-- end -->"
    inserted = "<!-- output: one -->\n| a |\n<!-- end -->, <!-- output: other -->\n```text\na\n```\n<!-- end -->"
    assert filled(text, {}) == filled(inserted, {}) == inserted
    with pytest.raises(ValueError, match="third: found no such output"):
        filled("<!-- output: third -->\n<!-- end -->", {})


def test_a_table_of_runs_has_their_means_and_what_they_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"seed": seed, "seconds": 590.0 + seed, "metrics": {"test/loss": loss}, "ours": {"test/loss": loss},
              "peer": {"test/loss": 1.5}} for seed, loss in enumerate((1.5, 1.6, 1.58))]  # fmt: skip
    text = "<!-- runs: shakespeare; nats: test/loss .3f -->\n{}<!-- end -->"
    told = [
        "| seed | nats | nats of PyTorch | ours relative to PyTorch's | seconds |",
        "|---|---|---|---|---|",
        "| 0 | 1.500 | 1.500 | 1.000 | 590 |",
        "| 1 | 1.600 | 1.500 | 1.067 | 591 |",
        "| 2 | 1.580 | 1.500 | 1.053 | 592 |",
        "| mean | 1.560 | 1.500 | 1.040 |  |",
        "| required | at most 1.55: **missed** |  | at most 1: **missed** | at most 600 |",
    ]
    monkeypatch.setattr(recipes, "recorded", lambda name: lines)
    assert filled(text.format("old\n"), {}) == text.format("\n".join(told) + "\n")
    del lines[2], lines[1]["peer"]
    told[4:] = [
        "| mean | 1.550 | 1.500 | 1.000 |  |",
        "| required | at most 1.55 (2 of 3 seeds measured) |  | at most 1 (1 of 3 seeds measured) | at most 600 |",
    ]
    told[3] = "| 1 | 1.600 |  |  | 591 |"
    assert filled(text.format(""), {}) == text.format("\n".join(told) + "\n")
    lines.clear()
    assert "\nNot measured yet: `python benchmarks/recipes.py shakespeare --seed 0`.\n" in filled(text.format(""), {})


def test_the_page_has_a_command_for_each_table_and_marks_what_was_missed() -> None:
    text = page({"steps": [LINE]})
    assert "\nP (AVX2), 2 threads, 8 GB, Linux; python 3.11, torch 2.\n" in text
    assert "python benchmarks/steps.py --peer-python PYTHON\n" in text
    assert "| `mlp` | 1.25 ms | 2 ms | 1.600 (1.500 to 1.700) | 2 | **missed** | 2026-01-01 | abc |" in text

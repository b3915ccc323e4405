"""Recipes' bars: what is no number reaches none, and results stay JSON."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import recipes


@pytest.mark.parametrize("place", range(6))
def test_a_distance_that_is_nan_reaches_no_bar(place: int) -> None:
    values = [8.0, 6.0, 4.0, 3.0, 2.0, 1.0]

    def figures() -> dict[str, float]:
        run: Any = SimpleNamespace(metrics={"valid/ema/frechet": SimpleNamespace(value=values)})
        return recipes.frechet_by_its_first(run)

    assert recipes.reaches(recipes.ROWS["lsgan"], figures())
    values[place] = math.nan
    assert recipes.reaches(recipes.ROWS["lsgan"], figures()) is (place in (1, 2))  # these two count for nothing
    values[place] = math.inf
    assert recipes.reaches(recipes.ROWS["lsgan"], figures()) is (place in (1, 2))


def test_results_that_are_no_numbers_are_null_and_miss_their_bars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipes, "RESULTS", tmp_path)
    line = {"recipe": "digits", "configuration": recipes.configuration("digits"), "seconds": 9.0}
    recipes.append({**line, "seed": 0, "metrics": {"test/accuracy": math.nan}})
    recipes.append({**line, "seed": 1, "metrics": {"test/accuracy": 1.0}})
    (found,) = recipes.table()
    assert math.isnan(found["means"]["test/accuracy"]) and found["ok"] is False
    text = (tmp_path / "digits.jsonl").read_text()
    assert [json.loads(each)["metrics"]["test/accuracy"] for each in text.splitlines()] == [None, 1.0]

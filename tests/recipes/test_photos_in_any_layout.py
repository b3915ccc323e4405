"""Photos in every layout, trained on by `trainer run RECIPE data.root=FOLDER` with all that the recipe says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.datasets.layout_folders import LAYOUTS, Photos
from tests.recipes.test_own_data import RECIPES
from trainer.cli import main
from trainer.datasets.layouts import detect


@pytest.mark.full
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_recipe_trains_on_photos(
    tmp_path: Path, shared_data: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write, reader, counts = LAYOUTS[layout]
    folder = tmp_path / "photos"
    write(folder, Photos(shared_data))
    found = detect(folder)
    assert {split: part.items for split, part in found.splits.items()} == counts
    words = ["run", RECIPES[reader], f"data.root={folder}", "train.steps=2", "train.log_every_steps=1",
             "--plain", "--in-process", "--run-dir", str(tmp_path / "run")]  # fmt: skip
    if "valid" not in counts:
        assert main([*words, "train.epochs=null"]) == 2
        assert "`data.reader.fractions={valid: 0.1}" in capsys.readouterr().err
        words[2:2] = ["data.reader.fractions={valid: 0.34}"]
    assert main([*words, "train.epochs=null"]) == 0
    out = capsys.readouterr().out
    assert "step=2" in out and " valid/" in out and "end=done" in out

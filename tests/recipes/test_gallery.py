"""What every recipe's folder holds, and that its configuration is valid from the start."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from trainer.configs import RecipeIndex, load

GALLERY = RecipeIndex.built_in()


@pytest.mark.parametrize("name", GALLERY.names())
def test_a_recipe_is_complete(name: str) -> None:
    folder = GALLERY.folder(name)
    assert {"README.md", "config.yaml", "options.py", "task.py"} <= {path.name for path in folder.iterdir()}
    pictures = list(folder.glob("*.png"))
    assert pictures
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for picture in pictures:
        assert picture.name in readme
        with Image.open(picture) as image:
            image.verify()
    for heading in ("What it does", "Data", "Run it", "Your own data"):
        assert f"## {heading}" in readme


@pytest.mark.parametrize("name", GALLERY.names())
def test_a_recipes_config_is_valid_and_its_task_reads_in_one_sitting(name: str) -> None:
    loaded = load(name)
    assert loaded.task.recipe == name
    assert len(loaded.task.file.read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.parametrize("name", GALLERY.names())
def test_data_that_a_recipe_carries_has_its_licence_beside_it(name: str) -> None:
    data = GALLERY.folder(name) / "data"
    if not data.is_dir():
        pytest.skip("carries no data")
    assert "Licence:" in (Path(data) / "README.md").read_text(encoding="utf-8")

"""A gallery of one small recipe, so that these tests stand without the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.configs import ConfigError, RecipeIndex, load

RECIPE = """\
task: ./task.py:Tiny
data:
  batch_size: 32
optimizer:
  name: sgd
  learning_rate: 1e-1
  momentum: 0.9
train:
  epochs: 4
options:
  width: 16
"""

OPTIONS = """\
from pathlib import Path
from typing import Literal
from pydantic import Field
from trainer.configs import Section

class Head(Section):
    kind: Literal["linear", "cosine"] = "linear"

class Options(Section):
    width: int = Field(8, gt=0)
    sizes: tuple[int, ...] = (3, 5)
    head: Head = Head()
    kernel: int | tuple[int, int] = 3
    vocabulary: Path | None = None
"""


@pytest.fixture
def gallery(tmp_path: Path) -> RecipeIndex:
    folder = tmp_path / "gallery" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(RECIPE)
    (folder / "options.py").write_text(OPTIONS)
    (folder / "task.py").write_text("class Tiny: pass\n")
    (tmp_path / "gallery" / "parts").mkdir()
    return RecipeIndex(tmp_path / "gallery")


@pytest.fixture
def problems(gallery: RecipeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The lines of what is wrong with a `config.yaml` of some text and overrides; empty when it is valid."""

    def lines(text: str, *overrides: str) -> list[str]:
        (tmp_path / "config.yaml").write_text(text)
        monkeypatch.chdir(tmp_path)
        try:
            load("config.yaml", overrides, recipes=gallery)
        except ConfigError as error:
            return [str(problem) for problem in error.problems]
        return []

    return lines

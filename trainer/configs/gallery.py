"""Finds recipes: folders with a `config.yaml`, by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trainer

_BUILT_IN = Path(trainer.__file__).parent / "recipes"


@dataclass(frozen=True)
class RecipeIndex:
    """The recipes under `root`; each is a subfolder with config.yaml, options.py and task.py."""

    root: Path

    @staticmethod
    def built_in() -> RecipeIndex:
        """The gallery that is installed with the package."""
        return RecipeIndex(_BUILT_IN)

    def names(self) -> list[str]:
        """Every recipe's name, sorted."""
        return sorted(path.parent.name for path in self.root.glob("*/config.yaml") if path.parent.name != "parts")

    def __contains__(self, name: str) -> bool:
        return name in self.names()

    def folder(self, name: str) -> Path:
        """The recipe's folder."""
        return self.root / name

    def config(self, name: str) -> Path:
        """The recipe's configuration file."""
        return self.root / name / "config.yaml"

    def name_of(self, folder: Path) -> str | None:
        """The name of the recipe in `folder`; None if the folder is not a recipe of this gallery."""
        return folder.name if folder.parent == self.root and folder.name in self else None

    def package(self, name: str) -> str | None:
        """The Python package of a recipe that is installed with `trainer`; None for another gallery."""
        return f"trainer.recipes.{name}" if self.root == _BUILT_IN else None

"""The recipes that come with trainer: one folder each, listed without importing them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from trainer import TrainerError
from trainer.configs import RecipeIndex
from trainer.configs.problems import did_you_mean

_TIME = "Time: "


@dataclass(frozen=True)
class Listing:
    """The entry of a recipe in `trainer list`: the first line of its package's docstring, and its training time."""

    name: str
    summary: str
    time: str


def recipe_names() -> list[str]:
    """The names of all recipes."""
    return RecipeIndex.built_in().names()


def recipe_folder(name: str) -> Path:
    """The folder of a recipe.

    Raises:
        TrainerError: no recipe of that name.
    """
    names = recipe_names()
    if name not in names:
        raise TrainerError(f"no such recipe: {name}{did_you_mean(name, names)}")
    return RecipeIndex.built_in().folder(name)


def listing(name: str) -> Listing:
    """The entry of a recipe, read from its `__init__.py` without importing it."""
    package = ast.parse((recipe_folder(name) / "__init__.py").read_text(encoding="utf-8"))
    lines = (ast.get_docstring(package) or "").splitlines() or [""]
    times = [line.removeprefix(_TIME).rstrip(".") for line in lines if line.startswith(_TIME)]
    return Listing(name, lines[0].rstrip("."), times[0] if times else "")

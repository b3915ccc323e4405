"""The recipes that come with trainer: a folder each, found without importing any of them."""

from __future__ import annotations

from pathlib import Path

from trainer import TrainerError
from trainer.cli import did_you_mean
from trainer.configs import RecipeIndex


def recipe_names() -> list[str]:
    """The names of all recipes."""
    return RecipeIndex.built_in().names()


def recipe_folder(name: str) -> Path:
    """Where a recipe lies.

    Raises:
        TrainerError: no recipe of that name.
    """
    names = recipe_names()
    if name not in names:
        raise TrainerError(f"no such recipe: {name}{did_you_mean(name, names)}")
    return RecipeIndex.built_in().folder(name)


def recipe_summary(name: str) -> str:
    """The first sentence of text in the recipe's README."""
    readme = recipe_folder(name) / "README.md"
    if not readme.is_file():
        return ""
    for paragraph in readme.read_text(encoding="utf-8").split("\n\n"):
        text = " ".join(paragraph.split())
        if text and not text.startswith(("#", "!", "<", "|", "```")):
            return text.split(". ")[0].rstrip(".")
    return ""

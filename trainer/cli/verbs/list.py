"""`trainer list`: the recipes, one line each."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer list
  trainer list --json
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a recipe")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.gallery import listing, recipe_names

    recipes = [listing(name) for name in recipe_names()]
    if arguments.json:
        import json

        for recipe in recipes:
            print(json.dumps(vars(recipe)))
        return 0
    names = max((len(recipe.name) for recipe in recipes), default=0)
    times = max((len(recipe.time) for recipe in recipes), default=0)
    for recipe in recipes:
        print(f"{recipe.name:{names}}  {recipe.time:{times}}  {recipe.summary}")
    return 0

"""`trainer list`: lists the recipes, one line each."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer list
  trainer list --json
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object per recipe")


def execute(arguments: argparse.Namespace) -> int:
    import sys

    from trainer.cli.gallery import listing, recipe_names
    from trainer.cli.output import Style, paint

    recipes = [listing(name) for name in recipe_names()]
    if arguments.json:
        import json

        for recipe in recipes:
            print(json.dumps(vars(recipe)))
        return 0
    names = max((len(recipe.name) for recipe in recipes), default=0)
    times = max((len(recipe.time) for recipe in recipes), default=0)
    for recipe in recipes:
        name = f"{recipe.name:{names}}"
        paint(sys.stdout, (name, Style.NAME), (f"  {recipe.time:{times}}  {recipe.summary}\n", None))
    return 0

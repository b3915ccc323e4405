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
    from trainer.cli.gallery import recipe_names, recipe_summary

    names = recipe_names()
    width = max(map(len, names), default=0)
    for name in names:
        if arguments.json:
            import json

            print(json.dumps({"name": name, "summary": recipe_summary(name)}))
        else:
            print(f"{name:{width}}  {recipe_summary(name)}".rstrip())
    return 0

"""`trainer schema`: prints the JSON Schema of configs, for editors that complete and check YAML."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer schema > trainer.schema.json
  trainer schema digits > digits.schema.json       with the options of a recipe

  in a YAML file, for editors with a YAML language server:
  # yaml-language-server: $schema=trainer.schema.json
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", nargs="?", metavar="CONFIG_OR_RECIPE", help="recipe or config whose task options to include"
    )


def execute(arguments: argparse.Namespace) -> int:
    import json

    from trainer.configs import json_schema, load

    options = load(arguments.target).options if arguments.target else None
    print(json.dumps(json_schema(None if options is None else type(options)), indent=2))
    return 0

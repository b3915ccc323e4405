"""`trainer check`: check a config without loading the engine, data or the task's code."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer check config.yaml
  trainer check digits train.epochs=3
  trainer check config.yaml --resolved      every value, and where it came from
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="CONFIG_OR_RECIPE", help="a YAML file or a recipe's name")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="values to set")
    parser.add_argument("--resolved", action="store_true", help="print the config with all values")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.layout import layout_line
    from trainer.configs import dump_resolved, load

    loaded = load(arguments.target, arguments.overrides)
    if arguments.resolved:
        print(dump_resolved(loaded), end="")
        return 0
    layout = layout_line(loaded.config)
    print(f"{arguments.target}: good")
    if layout is not None:
        print(f"  {layout}")
    for part in loaded.not_loaded:
        print(f"  not looked at: {part}")
    return 0

"""`trainer check`: check a config and what it names, without running the task's code."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from trainer.cli.rehearsal import HINT

if TYPE_CHECKING:
    from trainer.cli.surroundings import Surroundings
    from trainer.configs import Problem

__all__ = ["EXAMPLES", "HINT", "describe", "execute"]

EXAMPLES = """\
  trainer check config.yaml
  trainer check clothes data.root=photos       another folder of data, whose layout is detected
  trainer check config.yaml --json
  trainer check config.yaml --resolved         every value, and where it came from
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="CONFIG_OR_RECIPE", help="a YAML file or a recipe's name")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="values to set")
    parser.add_argument("--json", action="store_true", help="problems and data as one JSON object")
    parser.add_argument("--resolved", action="store_true", help="print the config with all values")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.exit_codes import DONE, USER_MISTAKE
    from trainer.cli.surroundings import Surroundings
    from trainer.configs import ConfigError, dump_resolved, load

    surroundings = Surroundings()
    try:
        loaded = load(arguments.target, arguments.overrides, rules=[surroundings.problems])
    except ConfigError as error:
        if not arguments.json:
            raise
        _print_json(surroundings, error.problems)
        return USER_MISTAKE
    if arguments.resolved:
        print(dump_resolved(loaded), end="")
        return DONE
    if arguments.json:
        _print_json(surroundings, ())
        return DONE
    print(f"{arguments.target}: good")
    if surroundings.line is not None:
        print(f"  {surroundings.line}")
    for text in surroundings.warnings:
        print(f"  warning: {text}")
    for part in loaded.not_loaded:
        print(f"  not looked at: {part}")
    return DONE


def _print_json(surroundings: Surroundings, problems: tuple[Problem, ...]) -> None:
    import json

    found: dict[str, Any] = {
        "ok": not problems,
        "problems": [problem.to_json() for problem in problems],
        "warnings": surroundings.warnings,
        "data": surroundings.to_json(),
    }
    print(json.dumps(found, indent=1))

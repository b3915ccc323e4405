"""`trainer checkpoint verify`: checks that every file of a run's checkpoints is undamaged."""

from __future__ import annotations

import argparse

EXAMPLES = (
    """\
  trainer checkpoint verify runs/digits                       every checkpoint of a run; exit code 1 if one """
    """is damaged
  trainer checkpoint verify runs/digits/checkpoints/step-250
"""
)


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a run or its name, or a checkpoint")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    from trainer import TrainerError
    from trainer.cli.find import find_source
    from trainer.learner.checkpoints import checkpoints_at, read_checkpoint

    problems: dict[str, str | None] = {}
    for folder in checkpoints_at(find_source(arguments.source)):
        try:
            read_checkpoint(folder)
            problems[str(folder)] = None
        except TrainerError as error:
            problems[str(folder)] = str(error)
    if arguments.json:
        import json

        print(json.dumps({name: {"good": found is None, "problem": found} for name, found in problems.items()}))
    else:
        for name, found in problems.items():
            print(f"{name}: all files are undamaged" if found is None else f"DAMAGED {found}")
    return 1 if any(problems.values()) else 0

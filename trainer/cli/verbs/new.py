"""`trainer new`: creates a folder with a configuration and a task, ready to edit and run."""

from __future__ import annotations

import argparse

EXAMPLES = (
    """\
  trainer new mine                                    a small commented classifier, with bundled data
  """
    """trainer new mine --data photos                      the same for your own folder of images
  trainer new mine """
    """--recipe detection                 a copy of a recipe, with its data
  trainer new mine --recipe detection """
    """--data cells    a copy of a recipe, for your own data
  cd mine && trainer run config.yaml
"""
)


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="folder of the project; new or empty")
    parser.add_argument("--recipe", metavar="RECIPE", help="recipe to copy, see `trainer list` (default: a template)")
    parser.add_argument("--data", metavar="FOLDER", help="your data set (default: bundled data)")


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer.cli.projects import write_project

    data = None if arguments.data is None else Path(arguments.data)
    found = write_project(Path(arguments.folder), recipe=arguments.recipe, data=data)
    names = sorted(path.name for path in Path(arguments.folder).iterdir() if path.suffix in (".yaml", ".py"))
    print(f"{arguments.folder} has {', '.join(names)}")
    if found is not None:
        print(f"  data: {found}")
    print(f"  train it:  cd {arguments.folder} && trainer run config.yaml")
    return 0

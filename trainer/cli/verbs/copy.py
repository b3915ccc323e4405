"""`trainer copy`: a recipe's files in a folder of one's own, ready to be changed and run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_ELSEWHERE = r"\.\./(\w+/[\w./-]*\w)"
"""How a recipe's config names what another recipe carries: `root: ../clothes/data`."""

EXAMPLES = """\
  trainer copy digits mine
  cd mine && trainer run config.yaml
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="see `trainer list`")
    parser.add_argument("folder", metavar="DIR", help="where to; must be new or empty")


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer.cli.gallery import recipe_folder

    folder = Path(arguments.folder)
    copy_recipe(recipe_folder(arguments.recipe), folder)
    print(f"{arguments.recipe} is in {folder}: cd {folder} && trainer run config.yaml")
    return 0


def copy_recipe(source: Path, target: Path) -> None:
    """Copy a recipe's files, and what its config names of other recipes' (their data), so that the copy is complete.

    Raises:
        TrainerError: there is something in the folder, or it can't be written.
    """
    import re
    import shutil

    from trainer import TrainerError
    from trainer.rundir import write_error

    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise TrainerError("the folder is not empty", where=str(target), expected="a new or empty folder")
        shutil.copytree(
            source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "__init__.py", "*.pyc")
        )
        config = target / "config.yaml"
        text = config.read_text(encoding="utf-8")
        for path in set(re.findall(_ELSEWHERE, text)):
            shutil.copytree(source.parent / path, target / path, dirs_exist_ok=True)
        config.write_text(re.sub(_ELSEWHERE, r"\1", text), encoding="utf-8")
    except shutil.Error as error:
        raise TrainerError(f"can't copy: {error}", where=str(target)) from error
    except OSError as error:
        raise write_error(error.filename or target, error) from error

"""`task:` a recipe's name or `./file.py:Class`, and the modules of the task."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pydantic import BaseModel

from trainer.configs.custom_class import OWN, package_for
from trainer.configs.declaration import Declaration
from trainer.configs.gallery import RecipeIndex
from trainer.configs.problems import KeyPath, Place, Problem, did_you_mean
from trainer.configs.reader import read_yaml

_AT: KeyPath = ("task",)


@dataclass(frozen=True)
class TaskReference:
    """The code of a task: its file and its class."""

    folder: Path
    module: str
    class_name: str | None
    """None: the only task in the module."""
    recipe: str | None
    """The recipe whose folder contains the task."""
    package: str
    """The name under which the folder's files are imported."""
    spec: str
    """The value of `task:` that names this task in a configuration in any folder."""

    @property
    def file(self) -> Path:
        """The task's Python file."""
        return self.folder / f"{self.module}.py"

    def import_module(self, name: str | None = None) -> ModuleType:
        """The module `name` of the task's folder (default: the task itself).

        The folder is a package, so its files import each other as `from .options import Options`; a user's folder gets
        a unique package name that matches nothing installed. Exceptions of the module pass through.
        """
        return importlib.import_module(f"{self.package}.{name or self.module}")


def find_task(text: str, place: Place, recipes: RecipeIndex) -> TaskReference | Problem:
    """The task that `text` names at `place`, or the error message."""
    written = OWN.fullmatch(text)
    if written is None:
        return _recipe_task(text, place, recipes)
    file = Path(os.path.abspath(Path(place.folder) / Path(written["file"]).expanduser()))
    if not file.is_file():
        return Problem(place, _AT, f"no file {file}")
    recipe = recipes.name_of(file.parent)
    package = (recipes.package(recipe) if recipe else None) or package_for(file.parent)
    is_own = recipe is not None and _own_task(recipe, recipes) == (file.stem, written["class"])
    spec = recipe if recipe is not None and is_own else f"{file}:{written['class']}"
    return TaskReference(file.parent, file.stem, written["class"], recipe, package, spec)


def load_declaration(task: TaskReference) -> Declaration | Problem | None:
    """`DECLARATION` of the task's options.py; None if the task declares nothing."""
    module = _options_module(task)
    if not isinstance(module, ModuleType):
        return module
    found = getattr(module, "DECLARATION", None)
    if found is None or isinstance(found, Declaration):
        return found
    source = Place(str(task.folder / "options.py"), folder=str(task.folder))
    return Problem(source, (), f"expected a trainer.configs.Declaration as DECLARATION, found {type(found).__name__}")


def load_options_model(task: TaskReference) -> type[BaseModel] | Problem | None:
    """The pydantic model `Options` of the task's options.py; None if the task has no options."""
    module = _options_module(task)
    if not isinstance(module, ModuleType):
        return module
    model = getattr(module, "Options", None)
    if model is None and hasattr(module, "DECLARATION"):
        return None
    source = Place(str(task.folder / "options.py"), folder=str(task.folder))
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return Problem(source, (), "expected a pydantic model named Options")
    if model.model_config.get("extra") != "forbid":
        return Problem(source, (), "expected Options that refuse unknown keys: derive it from trainer.configs.Section")
    try:
        model.model_rebuild()
    except Exception as error:  # pydantic raises several types of exceptions for an invalid field
        return Problem(source, (), f"Options can't be built: {error}")
    return model


def _options_module(task: TaskReference) -> ModuleType | Problem | None:
    """The module options.py of a task; None if it doesn't exist."""
    file = task.folder / "options.py"
    if not file.is_file():
        return None
    try:
        return task.import_module("options")
    except Exception as error:  # a user's file: whatever it raises is reported with its line
        return _failure(error, file)


def _recipe_task(name: str, place: Place, recipes: RecipeIndex) -> TaskReference | Problem:
    if name not in recipes:
        if name.endswith(".py"):
            return Problem(place, _AT, f"name the class too, as in {name}:MyTask")
        known = did_you_mean(name, recipes.names())
        return Problem(place, _AT, f"no recipe {name!r}{known} (a custom task is ./file.py:Class)")
    folder = recipes.folder(name)
    module, class_name = _own_task(name, recipes)
    return TaskReference(folder, module, class_name, name, recipes.package(name) or package_for(folder), name)


def _own_task(recipe: str, recipes: RecipeIndex) -> tuple[str, str | None]:
    """The module and class of a recipe's own configuration, as in `task: ./task.py:Digits`."""
    own = read_yaml(recipes.config(recipe).read_text(encoding="utf-8"), Place(recipe)).value
    written = OWN.fullmatch(str(own.get("task"))) if isinstance(own, dict) else None
    return ("task", None) if written is None else (Path(written["file"]).stem, written["class"])


def _failure(error: Exception, file: Path) -> Problem:
    """The exception of a user's file, at the line of that file that raised it."""
    import traceback

    if isinstance(error, SyntaxError) and error.lineno:
        return Problem(Place(error.filename or str(file), error.lineno, error.offset or 1), (), f"{error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    line = (frames[-1].lineno or 0) if frames else 0
    return Problem(Place(str(file), line, 1), (), f"{type(error).__name__}: {error}")

"""Custom classes, named in a config as `./file.py:Class`."""

from __future__ import annotations

import functools
import importlib
import linecache
import re
import sys
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from trainer import TrainerError

Base = TypeVar("Base")

OWN = re.compile(r"(?P<file>.+\.py):(?P<class>[A-Za-z_]\w*)")
PATTERN = r"^.+\.py:[A-Za-z_]\w*$"


_PREFIX = "_trainer_task_"

OWN_TAG = "./file.py:Class"
"""The tag of custom classes among the choices of a `name`."""


def which(value: Any) -> Any:
    """The tag that selects a section: its `name`, or OWN_TAG for a custom class."""
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    return OWN_TAG if names_own_class(name) else name


def names_own_class(value: object) -> bool:
    """Whether `value` has the form file.py:Class."""
    return isinstance(value, str) and OWN.fullmatch(value) is not None


def absolute_name(name: str, folder: str) -> str:
    """The name with the path of its file made absolute, relative to `folder`."""
    file, _, class_name = name.rpartition(":")
    return f"{Path(folder, Path(file).expanduser()).resolve()}:{class_name}"


def package_for(folder: Path) -> str:
    """The package name under which a user's folder is imported, so that its files can import each other: `from .other
    import …`.
    """
    name = f"{_PREFIX}{zlib.crc32(str(folder).encode()):08x}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return name


@functools.cache
def own_class(name: str) -> type:
    """The class that an absolute `file.py:Class` names. Exceptions of the file are not caught.

    Raises:
        ValueError: no such file, or no such class in it.
    """
    file, _, class_name = name.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"no file {path}")
    module = importlib.import_module(f"{package_for(path.parent)}.{path.stem}")
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise ValueError(f"{path} has no class {class_name}")
    return found


def own_subclass(name: str, base: type[Base], known_as: str) -> type[Base]:
    """The class that an absolute `file.py:Class` names; `known_as` is the public name of `base`, such as
    trainer.learner.Hook.

    Raises:
        TrainerError: no such class, or it does not derive from `base`.
    """
    what = base.__name__.lower()
    try:
        found = own_class(name)
    except ValueError as error:
        raise TrainerError(f"no such {what}", found=str(error)) from error
    if not issubclass(found, base):
        raise TrainerError(f"{name} is not a {what}", expected=f"a class derived from {known_as}")
    return found


def forget_own_code() -> None:
    """Unloads users' files, so that the next use reads them again: for notebooks, in which files change."""
    own_class.cache_clear()
    for name in [name for name in sys.modules if name.startswith(_PREFIX)]:
        del sys.modules[name]
    importlib.invalidate_caches()


def own_mistake(error: BaseException) -> str | None:
    """The message of an error and the lines of users' files in its traceback, outermost first.

    None if the traceback contains no user's file: the error is not the user's.
    """
    message = str(error) if isinstance(error, TrainerError) else f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, SyntaxError) and error.filename and _is_own(error.filename):
        return f"{type(error).__name__}: {error.msg}\n{_shown(error.filename, error.lineno or 1)}"
    lines = []
    entry = error.__traceback__
    while entry is not None:
        code, names = entry.tb_frame.f_code, entry.tb_frame.f_globals
        if str(names.get("__name__", "")).startswith(_PREFIX):
            lines.append(_shown(code.co_filename, entry.tb_lineno, f" in {code.co_name}"))
        entry = entry.tb_next
    return "\n".join([message, *lines]) if lines else None


def _is_own(file: str) -> bool:
    return any(Path(folder) in Path(file).parents for _, folder in own_packages())


def _shown(file: str, line: int, function: str = "") -> str:
    """A source line with its location."""
    linecache.checkcache(file)
    return f"  {file}:{line}{function}\n    {linecache.getline(file, line).strip()}"


def own_packages() -> list[tuple[str, str]]:
    """The packages of users' folders imported so far: name and folder, for another process that imports them."""
    return [(name, module.__path__[0]) for name, module in sys.modules.items()
            if name.startswith(_PREFIX) and "." not in name and hasattr(module, "__path__")]  # fmt: skip

"""Finds the files of a configuration: the requested one and those it extends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.configs.gallery import RecipeIndex
from trainer.configs.plain import plain_document
from trainer.configs.problems import ConfigError, Place, Problem, did_you_mean
from trainer.configs.reader import Document, read_yaml

IN_PYTHON = "<config>"
"""The source name of a configuration that is not a file."""


def read_sources(target: str | Mapping[str, Any], recipes: RecipeIndex) -> list[Document]:
    """The documents of `target` (a recipe's name, a YAML file or plain data) and of all it extends, the base first.

    Raises ConfigError if a file can't be found, read or parsed, or if files extend each other in a circle.
    """
    origin = Place("", folder=os.getcwd())
    documents: list[Document] = []
    visited: list[Place] = []
    place: Place | None
    if isinstance(target, Mapping):
        place = Place(IN_PYTHON, folder=os.getcwd())
        documents.append(plain_document(target, place))
        visited.append(place)
        place = _extended(documents[0], visited, recipes)
    else:
        found = _locate(target, origin, recipes)
        if isinstance(found, str):
            raise ConfigError([Problem(Place(target), (), found)])
        place = found
    while place is not None:
        document = _read(place, visited)
        visited.append(place)
        documents.insert(0, document)
        place = _extended(document, visited, recipes)
    return documents


def _locate(target: str, origin: Place, recipes: RecipeIndex) -> Place | str:
    """The file that `target` names, relative to `origin`; or the error message."""
    looks_like_file = "/" in target or os.sep in target or target.endswith((".yaml", ".yml"))
    if not looks_like_file and target in recipes:
        return _recipe_place(target, recipes)
    path = Path(origin.folder) / Path(target).expanduser()
    if path.is_dir() and (path / "config.yaml").is_file():
        path, target = path / "config.yaml", os.path.join(target, "config.yaml")
    if path.is_file() or looks_like_file:
        folder = Path(os.path.abspath(path.parent))
        recipe = recipes.name_of(folder) if path.name == "config.yaml" else None
        return _recipe_place(recipe, recipes) if recipe else Place(os.path.normpath(target), 1, 1, str(folder))
    return f"no recipe and no file has this name{did_you_mean(target, recipes.names())}"


def _recipe_place(name: str, recipes: RecipeIndex) -> Place:
    return Place(f"{name}/config.yaml", 1, 1, str(recipes.folder(name)), recipe=name)


def _read(place: Place, visited: list[Place]) -> Document:
    path = Path(place.folder) / os.path.basename(place.source)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        nearby = sorted(file.name for file in path.parent.glob("*.y*ml"))
        there = f"in {path.parent}: {', '.join(nearby) or 'no YAML file'}"
        found = there if path.parent.is_dir() else f"the folder {path.parent} doesn't exist either"
        guess = did_you_mean(path.name, nearby)
        raise ConfigError(
            [Problem(Place(place.source), (), f"no such file{guess if guess.startswith(', did') else ''}", found)]
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        start = error.object.rfind(b"\n", 0, error.start) + 1
        at = Place(place.source, line, error.start - start + 1)
        raise ConfigError([Problem(at, (), "not UTF-8 text")]) from None
    except OSError as error:
        raise ConfigError([Problem(Place(place.source), (), f"can't be read: {error.strerror}")]) from error
    document = read_yaml(text, place)
    if document.value is None and not document.values and document.problems:
        raise ConfigError(document.problems)
    if document.value is None:
        document.value = {}
        document.values.setdefault((), place)
    if not isinstance(document.value, dict):
        raise ConfigError([Problem(place, (), "expected sections such as `task:` and `train:`")])
    return document


def _extended(document: Document, visited: list[Place], recipes: RecipeIndex) -> Place | None:
    """The position of the base of a document; None if it extends nothing."""
    path = ("extends",)
    base = document.value.pop("extends", None)
    place = document.values.get(path)
    if base is None or place is None:
        return None
    if not isinstance(base, str):
        raise ConfigError([*document.problems, Problem(place, path, "expected a recipe's name or a YAML file")])
    found = _locate(base, place, recipes)
    if isinstance(found, str):
        raise ConfigError([*document.problems, Problem(place, path, f"{base}: {found}")])
    chain = [(one.folder, os.path.basename(one.source)) for one in visited]
    here = (found.folder, os.path.basename(found.source))
    if here in chain:
        circle = " -> ".join(one.source for one in [*visited[chain.index(here) :], found])
        raise ConfigError([*document.problems, Problem(place, path, f"files extend each other in a circle: {circle}")])
    if not found.recipe and not (Path(found.folder) / here[1]).is_file():
        raise ConfigError([*document.problems, Problem(place, path, f"no such file: {base}")])
    if not found.recipe and os.path.dirname(visited[-1].source):
        source = os.path.normpath(os.path.join(os.path.dirname(visited[-1].source), found.source))
        found = Place(source, 1, 1, found.folder)
    return found

"""Loads a configuration by name or file, applies overrides and validates it; reports all problems at once."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainer.configs.checks import check
from trainer.configs.custom_class import absolute_name
from trainer.configs.declaration import Declaration
from trainer.configs.declaration_checks import refuse_undeclared
from trainer.configs.gallery import RecipeIndex
from trainer.configs.layers import lay_over
from trainer.configs.metrics import MetricConfig
from trainer.configs.overrides import COMMAND_LINE, KEYWORDS, Overrides, override
from trainer.configs.own_data import without_inherited_reader
from trainer.configs.plain import plain_document
from trainer.configs.problems import ConfigError, KeyPath, Place, Problem, dotted
from trainer.configs.reader import Document
from trainer.configs.run import RunConfig
from trainer.configs.section import Section
from trainer.configs.sources import IN_PYTHON, read_sources
from trainer.configs.sweep_checks import refuse_unsweepable
from trainer.configs.task import TaskReference, find_task, load_declaration, load_options_model
from trainer.configs.translate import problems_of, value_place

_Model = TypeVar("_Model", bound=BaseModel)


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A configuration that is valid as far as can be known without loading data, weights or the task's code."""

    config: RunConfig
    options: BaseModel | None
    """The task's options, an instance of its `Options`; None if the task has no options."""
    task: TaskReference
    declaration: Declaration | None
    """The task's declared requirements and return values; None if it declares nothing."""
    document: Document = dataclasses.field(repr=False)
    """The values as written, each with its position."""
    recorded: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The origin of values that were determined after reading, by dotted path."""

    @cached_property
    def provenance(self) -> Mapping[str, str]:
        """The origin of each value, by dotted path: file:line:column, "<cli>", "recipe NAME" or "default"."""
        return {**_provenance(self.config, self.document), **self.recorded}

    def with_section(self, name: str, section: Section, origin: str) -> Loaded:
        """The configuration with the section `name` replaced; `origin` is recorded for its changed values."""
        config = self.config.model_copy(update={name: section})
        before, after = (_leaf_values(each.model_dump(mode="json")) for each in (getattr(self.config, name), section))
        changed = {dotted((name, *path)): origin for path, value in after.items() if before.get(path) != value}
        return dataclasses.replace(self, config=config, recorded={**self.recorded, **changed})

    @property
    def not_loaded(self) -> Sequence[str]:
        """The parts that were not checked, as text."""
        return _not_loaded(self)

    def problem(
        self, path: KeyPath, message: str, *, found: str | None = None, expected: str | None = None,
        hint: str | None = None, rests_on: tuple[KeyPath, ...] = (),
    ) -> Problem:  # fmt: skip
        """A problem with the value at `path`, at the position where it was written."""
        return Problem(value_place(self.document, path), path, message, found, expected, hint, rests_on)


Rule = Callable[[Loaded], Iterable[Problem]]
"""Finds further problems in a configuration. Values that are invalid on their own are replaced by defaults."""


def load(
    target: str | Mapping[str, Any],
    overrides: Overrides = (),
    *,
    recipes: RecipeIndex | None = None,
    rules: Sequence[Rule] = (),
) -> Loaded:
    """Reads and validates a recipe, a YAML file or plain data, with overrides applied.

    Overrides are `key=value` texts, or values by key: `{"train.epochs": 3}`, `{"train": {"epochs": 3}}`. Problems found
    by `rules` are reported together with all others.

    Raises ConfigError with all problems.
    """
    recipes = recipes or RecipeIndex.built_in()
    documents = read_sources(target, recipes)
    document = documents[0]
    for upper in documents[1:]:
        document = lay_over(document, upper, RunConfig)
    return _validated(without_inherited_reader(override(document, overrides, os.getcwd())), recipes, rules)


def load_resolved(path: str | os.PathLike[str], *, recipes: RecipeIndex | None = None) -> Loaded:
    """Reads a configuration that `dump_resolved` wrote."""
    return load(os.path.abspath(path), recipes=recipes)


def config_from(data: Mapping[str, Any]) -> RunConfig:
    """Validates plain data like YAML, for a `Learner` that receives its task's class.

    `task` may be missing; neither it nor `options` are checked. Paths are relative to the working directory.

    Raises ConfigError with all problems.
    """
    document = plain_document({"task": "own", **data}, Place(IN_PYTHON, folder=os.getcwd()))
    broken = [problem.path for problem in document.problems]
    unread = set(broken)
    config, found = _salvaged(RunConfig, document.value, document, broken)
    config = None if config is None else _absolute_paths(config, document, ())
    problems = [*document.problems, *(problem for problem in found if problem.path not in unread)]
    problems += _contradictions(config, document, broken)
    if problems or config is None:
        raise ConfigError(_in_order(problems))
    return config


def _validated(document: Document, recipes: RecipeIndex, rules: Sequence[Rule]) -> Loaded:
    problems = list(document.problems)
    broken = [problem.path for problem in problems if problem.path]
    unread = set(broken)  # their missing values are not reported again
    raw = {key: value for key, value in document.value.items() if key != "options"}
    config, found = _salvaged(RunConfig, raw, document, broken, needed={"task": "-"})
    problems += [problem for problem in found if problem.path not in unread]

    task = _task(document, recipes, problems)
    options: BaseModel | None = None
    declaration: Declaration | None = None
    if task is not None:
        options, found = _options(task, document, broken)
        problems += [problem for problem in found if problem.path not in unread]
        declared = load_declaration(task)
        if isinstance(declared, Problem):
            problems.append(declared)
        else:
            declaration = declared
    config = None if config is None else _absolute_paths(config, document, ())
    problems += _contradictions(config, document, broken)
    if config is None or task is None:
        raise ConfigError(_in_order(problems))

    options = None if options is None else _absolute_paths(options, document, ("options",))
    resolved = {} if options is None else options.model_dump(mode="json", by_alias=True)
    config = config.model_copy(update={"options": resolved, "task": task.spec})
    loaded = Loaded(config, options, task, declaration, document)
    for rule in (refuse_undeclared, refuse_unsweepable, *rules):
        for problem in rule(loaded):
            rests_on = (problem.path, *problem.rests_on)
            if not any(_touch(path, other) for path in rests_on for other in broken):
                problems.append(problem)
    if problems:
        raise ConfigError(_in_order(problems))
    return loaded


def _contradictions(config: RunConfig | None, document: Document, broken: Sequence[KeyPath]) -> list[Problem]:
    """The broken rules between values, except rules that depend on values that are invalid themselves."""
    return [
        _blamed(document, path, message, about)
        for path, message, about in (check(config) if config is not None else ())
        if not any(_touch(one, other) for one in about for other in broken)
    ]


def _blamed(document: Document, path: KeyPath, message: str, about: Sequence[KeyPath]) -> Problem:
    """The problem at its position, or at the override that broke the rule if the other values are in a file."""
    place = value_place(document, path)
    if place.source not in (COMMAND_LINE, KEYWORDS):
        for one in about:
            given = document.values.get(one)
            if given is not None and given.source in (COMMAND_LINE, KEYWORDS):
                return Problem(given, one, f"{dotted(path)} at {place}: {message}")
    return Problem(place, path, message)


def _salvaged(
    model: type[_Model],
    raw: Any,
    document: Document,
    broken: list[KeyPath],
    *,
    prefix: KeyPath = (),
    needed: Mapping[str, Any] | None = None,
) -> tuple[_Model | None, list[Problem]]:
    """Validates the model without its invalid values, so that rules between values are checked in the same pass.

    `broken` receives the removed paths. `needed` replaces missing keys. Also returns the problems.
    """
    problems: list[Problem] = []
    for attempt in range(10):
        try:
            return model.model_validate_json(json.dumps(raw)), problems  # strict, but a list may become a tuple
        except ValidationError as error:
            found = problems_of(error, model, document, prefix)
        if attempt == 0:
            problems = found
        left_out: list[KeyPath] = []
        for problem in found:
            path = problem.path[len(prefix) :]
            broken += [problem.path, *_intended(problem)]
            if _is_path(raw, path):
                left_out.append(path)
            elif len(path) > 1:
                left_out.append(path[:-1])
        raw = _without(raw, left_out)
        raw = {**(needed or {}), **raw} if isinstance(raw, dict) else dict(needed or {})
    return None, problems


def _intended(problem: Problem) -> list[KeyPath]:
    """The key that a misspelled key probably stands for; it is not also reported as missing."""
    _, found, rest = problem.message.partition("did you mean '")
    return [(*problem.path[:-1], rest.partition("'")[0])] if found else []


def _options(task: TaskReference, document: Document, broken: list[KeyPath]) -> tuple[BaseModel | None, list[Problem]]:
    path: KeyPath = ("options",)
    written = document.value.get("options")
    raw = {} if written is None else written
    model = load_options_model(task)
    if isinstance(model, Problem):
        return None, [model]
    if model is None:
        message = f"the task takes no options: {task.folder} has no options.py with a class Options"
        return None, [Problem(value_place(document, path), path, message)] if raw else []
    if not isinstance(raw, dict):
        return None, [Problem(value_place(document, path), path, "expected a mapping")]
    return _salvaged(model, raw, document, broken, prefix=path)


def _task(document: Document, recipes: RecipeIndex, problems: list[Problem]) -> TaskReference | None:
    text = document.value.get("task")
    if not isinstance(text, str) or not text:
        return None  # the models have reported this
    found = find_task(text, value_place(document, ("task",)), recipes)
    if isinstance(found, Problem):
        problems.append(found)
        return None
    return found


def _absolute_paths(section: _Model, document: Document, path: KeyPath) -> _Model:
    """The section with relative paths made absolute, each relative to the file (or shell) that set it."""
    changes: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        value, here = getattr(section, name), (*path, field.alias or name)
        if isinstance(value, Path) and here in document.values:
            changes[name] = Path(os.path.abspath(Path(document.values[here].folder) / value.expanduser()))
        elif isinstance(value, BaseModel):
            changes[name] = _absolute_paths(value, document, here)
        elif isinstance(value, tuple) and any(isinstance(item, BaseModel) for item in value):
            changes[name] = tuple(_absolute_paths(item, document, (*here, i)) for i, item in enumerate(value))
        elif isinstance(value, dict) and any(isinstance(item, BaseModel) for item in value.values()):
            changes[name] = {key: _absolute_paths(item, document, (*here, key)) for key, item in value.items()}
        elif name == "name" and hasattr(section, "matches"):
            place = document.values.get(here, document.values.get(path))
            changes[name] = absolute_name(str(value), place.folder if place is not None else os.getcwd())
    changes = {name: value for name, value in changes.items() if value is not getattr(section, name)}
    section = section.model_copy(update=changes) if changes else section
    if isinstance(section, MetricConfig) and path in document.values:
        return section.at(document.values[path].provenance)
    return section


def _provenance(config: RunConfig, document: Document) -> dict[str, str]:
    leaves = _leaf_values(config.model_dump(mode="json", by_alias=True))
    origins: dict[KeyPath, dict[str, None]] = {path: {} for path in leaves}
    for at, place in document.values.items():
        for end in range(len(at) + 1):
            if at[:end] in origins:
                origins[at[:end]][place.provenance] = None
    return {dotted(path): ", ".join(found) or "default" for path, found in origins.items()}


def _leaf_values(tree: Any, path: KeyPath = ()) -> dict[KeyPath, Any]:
    """All values of a tree by path; a list is one value."""
    if isinstance(tree, dict) and tree:
        return {at: value for key, item in tree.items() for at, value in _leaf_values(item, (*path, key)).items()}
    return {path: tree}


def _not_loaded(loaded: Loaded) -> list[str]:
    config, task = loaded.config, loaded.task
    parts = [f"the task's code ({task.file})", f"its data ({config.data.root or 'the task decides where'})"]
    if loaded.declaration is None:
        parts.append("the task's requirements (no DECLARATION in its options.py)")
    return [*parts, *(f"weights ({section.weights})" for section in config.model.sources().values())]


def _is_path(value: Any, path: KeyPath) -> bool:
    """Whether `path` exists in a tree."""
    for part in path:
        if not (part in value if isinstance(value, dict) else isinstance(value, list) and part in range(len(value))):
            return False
        value = value[part]
    return True


def _without(value: Any, paths: Iterable[KeyPath]) -> Any:
    """The tree without `paths`. A path into a list removes the whole list, because its length may matter."""
    below: dict[Any, list[KeyPath]] = {}
    for path in paths:
        if not path:
            return None
        below.setdefault(path[0], []).append(path[1:])
    if not isinstance(value, dict):
        return value
    return {
        key: _without(item, below.get(key, ()))
        for key, item in value.items()
        if all(rest and not isinstance(rest[0], int) for rest in below.get(key, ()))
    }


def _touch(one: KeyPath, other: KeyPath) -> bool:
    """Whether one path contains the other. The root overlaps nothing."""
    shorter = min(len(one), len(other))
    return shorter > 0 and one[:shorter] == other[:shorter]


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Each problem once, in the order of the text: files first, then the command line."""
    unique = {(str(one.place), one.path, one.message): one for one in problems}.values()
    return sorted(unique, key=lambda one: (one.place.line == 0, one.place.source, one.place.line, one.place.column))

"""Finds the section model for a path of a tree, by walking the annotations and the values together."""

from __future__ import annotations

import types
from typing import Annotated, Any, ForwardRef, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from trainer.configs.choice import choice_of
from trainer.configs.problems import KeyPath

_UNIONS = (Union, types.UnionType)


def section_at(model: type[BaseModel], value: Any, path: KeyPath) -> type[BaseModel] | None:
    """The section at `path` under `model`; None if there is none or the values are ambiguous."""
    annotation: Any = model
    for part in path:
        annotation = _child(_choose(annotation, value), part)
        value = _item(value, part)
        if annotation is None:
            return None
    chosen = _choose(annotation, value)
    return chosen if _is_section(chosen) else None


def known_keys(section: type[BaseModel]) -> list[str]:
    """The keys of a section, as written in YAML."""
    return [field.alias or name for name, field in section.model_fields.items()]


def variant_keys(model: type[BaseModel], value: Any, path: KeyPath) -> set[str]:
    """The keys that select one of several sections at `path` (such as `name` of an optimizer); empty for a single
    section.
    """
    annotation: Any = model
    for part in path:
        annotation = _child(_choose(annotation, value), part)
        value = _item(value, part)
    members = [member for member in _members(annotation) if _is_section(member)]
    if any(choice_of(member) for member in members):
        return {"name"}
    literals = [set(_literals(member)) for member in members if not hasattr(member, "matches")]
    return set() if len(members) < 2 else set.intersection(*literals)


def _members(annotation: Any) -> list[Any]:
    """The alternatives of an annotation, without pydantic's metadata."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _members(get_args(annotation)[0])
    if origin in _UNIONS:
        return [member for argument in get_args(annotation) for member in _members(argument)]
    return [annotation]


def _choose(annotation: Any, value: Any) -> Any:
    """The alternative that a value selects: by its `name` among sections, otherwise the first whose type matches."""
    members = _members(annotation)
    sections = [member for member in members if _is_section(member)]
    if isinstance(value, dict) and sections:
        if len(sections) == 1:
            return _selected(sections[0], value)
        fitting = [section for section in sections if _fits(section, value)]
        return fitting[0] if len(fitting) == 1 else None
    forms: tuple[type, ...] = (dict,) if isinstance(value, dict) else (list, tuple) if isinstance(value, list) else ()
    if sections and not forms:
        return sections[0] if len(sections) == 1 else None
    return next((member for member in members if get_origin(member) in forms), None)


def _selected(section: type[BaseModel], value: dict[str, Any]) -> type[BaseModel]:
    """The section itself, or the selected subclass if it stands for several."""
    choice = choice_of(section)
    return (choice.selected(value) if choice else None) or section


def _fits(section: type[BaseModel], value: dict[str, Any]) -> bool:
    if hasattr(section, "matches"):
        return bool(section.matches(value))
    literals = _literals(section)
    return bool(literals) and all(value.get(key) in choices for key, choices in literals.items())


def _literals(section: type[BaseModel]) -> dict[str, tuple[Any, ...]]:
    """The keys with a single allowed word, and the word: they select alternatives."""
    return {
        field.alias or name: get_args(field.annotation)
        for name, field in section.model_fields.items()
        if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
    }


def _child(annotation: Any, part: Any) -> Any:
    if _is_section(annotation):
        found = _annotation_of(annotation, part)
        if isinstance(found, ForwardRef):  # a section may contain sections of its own type
            annotation.model_rebuild()
            found = _annotation_of(annotation, part)
        return found
    arguments = get_args(annotation)
    if get_origin(annotation) is dict and arguments:
        return arguments[1]
    if arguments and isinstance(part, int):
        if get_origin(annotation) is list or Ellipsis in arguments:
            return arguments[0]
        return arguments[part] if part < len(arguments) else None
    return None


def _annotation_of(section: type[BaseModel], key: Any) -> Any:
    return next((field.annotation for name, field in section.model_fields.items() if key in (name, field.alias)), None)


def _item(value: Any, part: Any) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)

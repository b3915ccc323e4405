"""Translates pydantic's errors into the user's terms and positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from trainer.configs.foreign import KEYS, SECTIONS, VALUES
from trainer.configs.problems import MOST_SHOWN, KeyPath, Place, Problem, did_you_mean, dotted
from trainer.configs.reader import Document, plain_value
from trainer.configs.shape import known_keys, section_at

# Expected values by pydantic's type of error; `{}` are filled from the error's context.
_EXPECTED: Mapping[str, str] = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "none_required": "null",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text of the form {pattern}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "union_tag_invalid": "{expected_tags}",
}

_BOUNDS = frozenset({
    "greater_than", "greater_than_equal", "less_than", "less_than_equal", "multiple_of", "too_short", "too_long",
    "string_too_short", "string_too_long",
})  # fmt: skip
"""Errors of a value with the right type: in a union, the alternative with this error is the intended one."""
_NUMBERS = ("int_type", "int_from_float", "float_type")


def problems_of(
    error: ValidationError, model: type[BaseModel], document: Document, prefix: KeyPath = ()
) -> list[Problem]:
    """Every problem in `error`, raised while `model` validated the part of `document` at `prefix`."""
    root = value_at(document.value, prefix) or {}
    expected: dict[KeyPath, list[str]] = {}
    bounds: dict[KeyPath, str] = {}
    found: dict[KeyPath, str] = {}
    hints: dict[KeyPath, set[str | None]] = {}
    problems: list[Problem] = []
    unknown = 0
    for item in error.errors(include_url=False):
        path = _path_in(root, item["loc"], missing=item["type"] == "missing")
        at = prefix + path
        kind, context = item["type"], item.get("ctx", {})
        if kind == "extra_forbidden":
            unknown += 1  # the search for a similar word costs 0.1 ms; not done for problems that are not shown
            section = section_at(model, root, path[:-1]) if unknown <= MOST_SHOWN else None
            hint = _unknown_key_hint(at, known_keys(section) if section else [])
            problems.append(Problem(key_place(document, at), at, f"unknown key{hint}", hint=_spaced(at[-1])))
        elif kind == "missing" and isinstance(at[-1], int):
            problems.append(Problem(value_place(document, at), at, "required item is missing"))
        elif kind == "union_tag_not_found" and isinstance(value_at(document.value, at), str):
            word = value_at(document.value, at)
            expected[at], found[at] = ["a mapping"], describe(word)
            hints[at] = {None if at[0] in SECTIONS and len(at) == 1 else f"Write {{name: {word}}}."}
        elif kind in ("missing", "union_tag_not_found"):
            at = at if kind == "missing" else (*at, "name")  # the key that selects one of several sections
            problems.append(Problem(value_place(document, at), at, "required key is missing"))
        elif kind == "too_short" and len(value_at(root, path) or ()) >= context["min_length"]:
            pass  # items that are invalid themselves are not counted; they have their own problems
        elif kind in _EXPECTED:
            expectation = _expectation(kind, context, section_at(model, root, path[:-1]), at[-1:])
            expected.setdefault(at, []).append(expectation)
            if kind in _BOUNDS:
                bounds[at] = expectation
            found[at] = _found(item["input"], kind, context)
            known = hints.setdefault(at, set())
            if kind != "literal_error":  # a fixed word as an alternative leaves the other form's hint certain
                known.add(_hint(item["input"], kind, section_at(model, root, path)))
        else:
            message = item["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            problems.append(Problem(value_place(document, at), at, message))
    for at, choices in expected.items():
        only_hint = hints[at].pop() if len(hints[at]) == 1 else None  # with several expected forms, no hint is certain
        expectation = bounds.get(at) or " or ".join(dict.fromkeys(choices))
        message = f"expected {expectation}, found {found[at]}"
        if len(at) == 1 and at[0] in SECTIONS and isinstance(value_at(document.value, at), str):
            message += f"; a single word belongs in {SECTIONS[at[0]]}"
        problems.append(Problem(value_place(document, at), at, message, found[at], expectation, only_hint))
    return problems


def _unknown_key_hint(path: KeyPath, known: list[str]) -> str:
    """A hint for an unknown key: the equivalent of another tool's key, or the correct spelling."""
    ours = KEYS.get(str(path[-1]), "") if path[0] != "options" else ""
    last = ours.partition(",")[0].rpartition(".")[2]
    if last in known:
        ours = dotted((*path[:-1], last))  # a key of this section
    if ours and not ours.startswith(dotted(path)):
        return f", the equivalent is {ours}"
    return did_you_mean(str(path[-1]), known)


def value_place(document: Document, path: KeyPath) -> Place:
    """The position of the value at `path`, or of the nearest mapping around it."""
    return _nearest(document, path, (document.values, document.keys))


def key_place(document: Document, path: KeyPath) -> Place:
    """The position of the key at `path`, or of the nearest mapping around it."""
    return _nearest(document, path, (document.keys, document.values))


def value_at(value: Any, path: KeyPath) -> Any:
    """The value at `path` of a tree, or None."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def describe(value: Any) -> str:
    """A value as the user wrote it, with its type if it is not obvious."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list | tuple):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind} of {len(value)}" if value else f"an empty {kind}"
    return repr(value) if isinstance(value, int | float) else f"the text {str(value)!r}"


def _expectation(kind: str, context: Mapping[str, Any], section: type[BaseModel] | None, key: KeyPath) -> str:
    """The expected value as text; a pattern is explained by its field's description, if it has one."""
    if kind == "string_pattern_mismatch" and section is not None and key:
        field = section.model_fields.get(key[0])
        if field is not None and field.description:
            return f"another form ({field.description.rstrip('.')})"
    plain = {name: int(bound) if isinstance(bound, float) and bound.is_integer() else bound
             for name, bound in context.items()}  # fmt: skip
    return _EXPECTED[kind].format(**plain)


def _hint(value: Any, kind: str, section: type[BaseModel] | None) -> str | None:
    """A hint on what to write instead of a value; None if that is uncertain."""
    if kind in ("model_type", "model_attributes_type"):
        keys = known_keys(section) if section is not None else []
        return _spaced(value) or (f"Expected a mapping with the keys: {', '.join(keys)}." if keys else None)
    if not isinstance(value, str):
        return None
    if kind in ("list_type", "tuple_type"):
        return f"Write [{value}]."
    if kind in _NUMBERS and isinstance(plain_value(value), int | float) and not isinstance(plain_value(value), bool):
        return f"Write {value} without quotation marks."
    return None


def _spaced(text: Any) -> str | None:
    """The hint for a key and value without a space between them."""
    key, colon, value = str(text).partition(":")
    return f"Put a space after the colon: {key}: {value}." if isinstance(text, str) and colon and value else None


def _found(value: Any, kind: str, context: Mapping[str, Any]) -> str:
    if kind == "union_tag_invalid":
        word, choices = context["tag"], context["expected_tags"]
    elif kind in ("literal_error", "enum") and isinstance(value, str):
        word, choices = value, context["expected"]
    else:
        return describe(value)
    known = [choice.strip(" '") for part in choices.split(" or ") for choice in part.split(",")]
    hint = did_you_mean(VALUES.get(str(word).lower(), str(word)), known)
    return f"{word!r}{hint}" if hint.startswith(", did") else repr(word)


def _nearest(document: Document, path: KeyPath, maps: tuple[dict[KeyPath, Place], dict[KeyPath, Place]]) -> Place:
    for end in range(len(path), -1, -1):
        for places in maps if end == len(path) else (document.values, document.keys):
            if path[:end] in places:
                return places[path[:end]]
    return Place("<config>")


def _path_in(root: Any, location: tuple[Any, ...], *, missing: bool) -> KeyPath:
    """Pydantic's location without the parts that name no value: the alternative of a union, the type of a validator."""
    path: list[Any] = []
    value = root
    for index, part in enumerate(location):
        is_last = index == len(location) - 1
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int)):
            value = value_at(value, (part,))
        elif not (is_last and missing):
            continue
        path.append(part)
    return tuple(path)

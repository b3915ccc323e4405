"""Reads YAML text into plain values, each with its line and column.

The text is composed into nodes, and the nodes are converted with one table of scalar forms (YAML 1.2 core: `1e-3` is a
number, `no` and `on` are text, dates are text). Tags are rejected, so no tag can construct an object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from trainer.configs.problems import KeyPath, Place, Problem

MOST_VALUES = 20_000
"""Maximum number of values. Aliases can expand a short text to exponentially many values."""
DEEPEST = 60
"""Maximum nesting depth. Deeper nesting is an error or an attack, and would overflow the interpreter's stack."""
MOST_DIGITS = 308
"""Maximum characters of an integer: a float can hold no more, and Python neither reads nor prints 4,301 digits."""

_Node = yaml.nodes.Node
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MERGE = "<<"
_INDENTATION = re.compile(r"[ \t]*")

_IN_OTHER_WORDS = {
    "while parsing a block mapping, did not find expected key":
        "this line's indentation matches no line above; keys of one section must start in the same column",
    "while parsing a flow mapping, did not find expected ',' or '}'":
        "a brace { is not closed, or a comma is missing after it",
    "while parsing a flow sequence, did not find expected ',' or ']'":
        "a bracket [ is not closed, or a comma is missing after it",
}  # fmt: skip
"""Clearer messages for the parser's most common complaints."""

_SPECIAL_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

# One row per form of unquoted text, tried in order: its pattern and its value. Anything else is text.
_PLAIN_FORMS: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"~|null|Null|NULL|"), lambda text: None),
    (re.compile(r"true|True|TRUE"), lambda text: True),
    (re.compile(r"false|False|FALSE"), lambda text: False),
    (re.compile(r"[-+]?[0-9]+(_[0-9]+)*"), int),
    (re.compile(r"0o[0-7]+"), lambda text: int(text, 8)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text, 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
     lambda text: _SPECIAL_FLOATS[text.lower().replace(".", "").removeprefix("+")]),
)  # fmt: skip


@dataclass
class Document:
    """A tree of plain values (dict, list, text, numbers, booleans, null) with the position of every key and value."""

    value: Any = None
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    values: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def plain_value(text: str) -> Any:
    """The value of an unquoted scalar, such as 0.001 for `1e-3`.

    Raises:
        ValueError: an integer of more than MOST_DIGITS characters.
    """
    for form, value in _PLAIN_FORMS:
        if form.fullmatch(text):
            if value is not float and len(text) > MOST_DIGITS:
                raise ValueError(too_long(len(text)))
            return value(text)
    return text


def too_long(digits: int) -> str:
    """The message for an integer with too many digits."""
    return f"expected an integer of at most {MOST_DIGITS} digits, found {digits} digits"


NOT_UTF_8 = "not UTF-8 text"


def is_unicode(text: str) -> bool:
    """Whether the text can be encoded as UTF-8: file names and command-line arguments need not be."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def read_yaml(text: str, start: Place) -> Document:
    """Reads one YAML document. Errors go to `problems`; the rest is still read.

    `start` names the source. If it has no lines (the command line), positions have none either.
    """
    document = Document()
    try:
        if _is_too_deep(text):
            document.problems.append(Problem(start, (), f"nested more than {DEEPEST} levels deep"))
            return document
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        document.problems.append(_syntax_problem(error, text, start))
        return document
    except UnicodeEncodeError as error:  # a command line that is not UTF-8
        document.problems.append(Problem(start, (), f"{NOT_UTF_8}: {text[error.start : error.end]!r}"))
        return document
    try:
        document.value = None if node is None else _Reading(text, start, document).value(node, ())
    except _EndOfReading as end:
        document.problems.append(end.args[0])
    return document


def _is_too_deep(text: str) -> bool:
    """Whether the text is nested too deeply to be composed: composing recurses, in C, until the stack overflows."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > 2 * DEEPEST:  # the walk reports nesting slightly above the limit, with its position
                return True
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return False


class _EndOfReading(Exception):
    """Ends the walk; holds the problem that ended it."""


class _Reading:
    """One walk over the nodes of a document."""

    def __init__(self, text: str, start: Place, document: Document) -> None:
        self.text, self.start, self.document = text, start, document
        self.open_nodes: list[_Node] = []
        self.count = 0

    def place(self, node: _Node) -> Place:
        start, mark = self.start, node.start_mark
        if not start.line:
            return start
        return Place(start.source, mark.line + 1, mark.column + 1, start.folder, start.recipe)

    def problem(self, node: _Node, path: KeyPath, message: str) -> None:
        self.document.problems.append(Problem(self.place(node), path, message))

    def value(self, node: _Node, path: KeyPath) -> Any:
        self.count += 1
        if self.count > MOST_VALUES:
            message = f"more than {MOST_VALUES} values; does an alias repeat inside an alias?"
            raise _EndOfReading(Problem(self.place(node), (), message))
        if len(path) > DEEPEST:
            raise _EndOfReading(Problem(self.place(node), (), f"nested more than {DEEPEST} levels deep"))
        if any(node is parent for parent in self.open_nodes):
            self.problem(node, path, "an alias to a value that contains it")
            return None
        self.document.values[path] = self.place(node)
        if self.has_tag(node):
            self.problem(node, path, "YAML tags are not supported: write the plain value, in quotes for text")
            return None
        self.open_nodes.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
            return node.value if getattr(node, "style", None) else plain_value(node.value)
        except ValueError as error:
            self.problem(node, path, str(error))
            return None
        finally:
            self.open_nodes.pop()

    def has_tag(self, node: _Node) -> bool:
        written = self.text[node.start_mark.index : node.start_mark.index + 200]
        return re.match(r"(&\S+\s+)?!", written) is not None

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        written: dict[str, Any] = {}
        merged: list[_Node] = []
        first: dict[str, Place] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(key_node, path, "expected a single word as a key")
                continue
            key = key_node.value
            if key == _MERGE and not key_node.style:
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            here = (*path, key)
            if key in first:
                self.problem(key_node, here, f"duplicate key, first given at {_short(first[key])}")
                continue
            first[key] = self.document.keys[here] = self.place(key_node)
            written[key] = self.value(value_node, here)
        for source in merged:  # earlier sources win, and the mapping's own keys win over all sources
            written = self.merge(source, written, path)
        return written

    def merge(self, source: _Node, written: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        if not isinstance(source, yaml.MappingNode):
            self.problem(source, path, "expected a mapping or a list of mappings after '<<'")
            return written
        own = Document()
        inherited = _Reading(self.text, self.start, own)
        inherited.open_nodes, inherited.count = self.open_nodes, self.count
        values = inherited.value(source, path) or {}
        self.count = inherited.count
        self.document.problems += own.problems
        depth = len(path)
        for ours, theirs in ((self.document.keys, own.keys), (self.document.values, own.values)):
            ours.update({at: place for at, place in theirs.items() if len(at) > depth and at[depth] not in written})
        for key, value in values.items():
            written.setdefault(key, value)
        return written


def _short(place: Place) -> str:
    return f"line {place.line}" if place.line else str(place)


def _syntax_problem(error: yaml.YAMLError, text: str, start: Place) -> Problem:
    """The parser's message as one line, at its position."""
    line, column, message = 1, 1, str(error).splitlines()[0]
    if isinstance(error, yaml.MarkedYAMLError):
        message = ", ".join(part for part in (error.context, error.problem) if part)
        message = _IN_OTHER_WORDS.get(message, message)
        mark = error.problem_mark or error.context_mark
        if mark is not None:
            line, column = mark.line + 1, mark.column + 1
    elif isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        message = f"unreadable character: {error.reason}"
    lines = text.split("\n")
    indentation = _INDENTATION.match(lines[line - 1]) if line <= len(lines) else None
    if indentation is not None and "\t" in indentation[0]:
        column, message = indentation[0].index("\t") + 1, "found a tab; indent lines with spaces"
    place = Place(start.source, line, column, start.folder, start.recipe) if start.line else start
    return Problem(place, (), f"not YAML: {message}")

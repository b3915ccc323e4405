"""Problems of a configuration: all problems of one pass, each with its position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trainer import TrainerError

MOST_SHOWN = 20
"""Maximum number of problems in a message; the rest is counted."""
LONGEST_LINE = 2000
"""Maximum number of characters of one problem in a message: keys and texts of a file can be of any length."""

KeyPath = tuple[Any, ...]
"""The path of a value in the tree: keys (text) and positions in lists (int)."""


@dataclass(frozen=True)
class Place:
    """The position where a value was written: a file with line and column (both from 1), or a source without lines.

    Relative paths written there start from `folder`.
    """

    source: str
    line: int = 0
    column: int = 0
    folder: str = ""
    recipe: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source

    @property
    def provenance(self) -> str:
        """The position as text in a resolved configuration: recipes by name, files by line."""
        return f"recipe {self.recipe}" if self.recipe else str(self)


@dataclass(frozen=True)
class Problem:
    """One problem: `config.yaml:12:5 optimizer.beta: unknown key, did you mean 'betas'?`.

    `found`, `expected` and `hint` follow on separate lines, unless the message contains them.
    """

    place: Place
    path: KeyPath
    message: str
    found: str | None = None
    expected: str | None = None
    hint: str | None = None
    rests_on: tuple[KeyPath, ...] = ()
    """Other keys that the rule depends on: if one of them is invalid itself, the problem is not reported."""

    @property
    def where(self) -> str:
        """The position and the key."""
        return " ".join(part for part in (str(self.place), dotted(self.path)) if part)

    def __str__(self) -> str:
        parts = (("  found:    ", self.found), ("  expected: ", self.expected), ("  ", self.hint))
        more = [f"{head}{text}" for head, text in parts if text is not None and text not in self.message]
        return "\n".join(map(_shortened, (f"{self.where}: {self.message}", *more)))

    def to_json(self) -> dict[str, str | None]:
        """All parts as plain data."""
        return {"where": self.where, "message": self.message, "found": self.found, "expected": self.expected,
                "hint": self.hint}  # fmt: skip


def _shortened(line: str) -> str:
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} … {line[-half:]}"


class ConfigError(TrainerError):
    """All problems of a configuration, in `problems`. The message lists the first ones, one per line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        if more := len(self.problems) - len(lines):
            lines.append(f"{more} more")
        super().__init__("\n".join(lines))


def dotted(path: Iterable[Any]) -> str:
    """`("a", 0, "b")` as `a[0].b`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else str(part)
    return text


def did_you_mean(word: str, known: Iterable[str], *, most: int | None = None) -> str:
    """`, did you mean 'betas'?` for the nearest of `known`, otherwise the list of known names (the last `most`)."""
    from difflib import get_close_matches

    known = list(known)
    near = get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    if not near and len(word) >= 3:
        near = [name for name in known if word.lower() in name]  # acc, flip
    if near:
        return f", did you mean '{near[0]}'?"
    listed = known if most is None or len(known) <= most else ["…", *known[-most:]]
    return f"; known here: {', '.join(listed)}" if known else ""

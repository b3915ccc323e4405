"""Matches the arrays of a file with those of a model by name, following the user's rules. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

Shape = tuple[int, ...]
WRAPPERS = ("module.", "_orig_mod.")
"""Name prefixes added by data-parallel training and torch.compile."""
COUNTERS = "num_batches_tracked"
"""A batch norm buffer that older files and other libraries lack: never reported as missing."""
MOST_SHOWN = 10


@dataclass(frozen=True)
class Selection:
    """The user's rules: `include` and `exclude` are shell patterns of the model's names, `rename` regular expressions
    on the file's names with their replacements, in order; `is_strict`: all names of both must match.
    """

    include: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    rename: Sequence[tuple[str, str]] = ()
    is_strict: bool = True

    def wants(self, name: str) -> bool:
        """Whether the model's `name` is to be loaded."""
        return any(fnmatchcase(name, pattern) for pattern in self.include) and not any(
            fnmatchcase(name, pattern) for pattern in self.exclude
        )

    def renamed(self, name: str) -> str:
        """A name of the file after renaming."""
        for pattern, replacement in self.rename:
            name = re.sub(pattern, replacement, name)
        return name


@dataclass
class Match:
    """The result: `pairs` maps the model's names to the file's; the rest lists names that don't match."""

    pairs: dict[str, str] = field(default_factory=dict)
    not_in_file: list[str] = field(default_factory=list)
    not_in_model: list[str] = field(default_factory=list)
    other_shapes: list[str] = field(default_factory=list)
    left_out: int = 0
    requested: int = 0

    @property
    def problems(self) -> list[str]:
        """The mismatches, one per line."""
        return [
            *self.other_shapes,
            *(f"{name}: not in the file" for name in self.not_in_file),
            *(f"{name}: not in the model" for name in self.not_in_model),
        ]

    def report(self) -> str:
        """One line: how many arrays were loaded, and which were not."""
        parts = [f"{len(self.pairs)} of {self.requested} arrays loaded"]
        lists = (("not in the file", self.not_in_file), ("not in the model", self.not_in_model),
                 ("with another shape", self.other_shapes))  # fmt: skip
        parts += [f"{len(names)} {what} ({shown(names)})" for what, names in lists if names]
        if self.left_out:
            parts.append(f"{self.left_out} excluded by include or exclude")
        return "; ".join(parts)


def matched(
    model: Mapping[str, Shape],
    file: Mapping[str, Shape],
    selection: Selection,
    prefix: str = "",
    aliases: Collection[str] = (),
) -> Match:
    """Matches the names of a model, or of a part of it, with those of a file.

    Names of the file may have the part's `prefix` ("net.backbone.") and the prefix of a wrapper. The interpretation
    that matches the most names is used for the whole file. `aliases` are alternative names of the model's arrays, which
    a file may lack.
    """
    renamed = {name: selection.renamed(name) for name in file}
    readings = [_reading(renamed, change) for change in _changes(prefix)]
    names = max(readings, key=lambda reading: sum(name in model for name in reading))  # the first one if equal
    match = Match(requested=sum(map(selection.wants, model)), left_out=sum(not selection.wants(name) for name in model))
    for name, shape in model.items():
        if not selection.wants(name):
            continue
        if name not in names:
            if name in aliases or name.endswith(COUNTERS):
                match.requested -= 1
            else:
                match.not_in_file.append(name)
        elif file[names[name]] != shape:
            match.other_shapes.append(f"{name}: shape {file[names[name]]} where the model has {shape}")
        else:
            match.pairs[name] = names[name]
    match.not_in_model = [
        origin
        for name, origin in names.items()
        if name not in model and not name.endswith(COUNTERS) and not _excluded(selection, name)
    ]
    return match


def _excluded(selection: Selection, name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in selection.exclude)


def _changes(prefix: str) -> list[Callable[[str], str | None]]:
    """The interpretations of a file's names: unchanged, without a wrapper's prefix, and each without the part's
    prefix.
    """
    changes: list[Callable[[str], str | None]] = [lambda name: name]
    changes += [_without(wrapper) for wrapper in WRAPPERS]
    if prefix:
        changes += [_without(prefix), *(_without(wrapper + prefix) for wrapper in WRAPPERS)]
    return changes


def _without(prefix: str) -> Callable[[str], str | None]:
    return lambda name: name.removeprefix(prefix) if name.startswith(prefix) else None


def _reading(names: Mapping[str, str], change: Callable[[str], str | None]) -> dict[str, str]:
    """The model's names for the file's, each with the file's own; names outside of the part are ignored."""
    return {changed: origin for origin, name in names.items() if (changed := change(name)) is not None}


def shown(names: Sequence[str]) -> str:
    """The first of the names."""
    rest = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")

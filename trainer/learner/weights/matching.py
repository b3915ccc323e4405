"""Which array of a file goes where in a model: by name, after what the user says about names. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

Shape = tuple[int, ...]
WRAPPERS = ("module.", "_orig_mod.")
"""What data-parallel training and torch.compile put before every name."""
COUNTERS = "num_batches_tracked"
"""A buffer of batch norms that older files lack and other libraries' models don't have: never a misfit."""
MOST_SHOWN = 10


@dataclass(frozen=True)
class Selection:
    """What the user says: `include` and `exclude` are shell patterns of the model's names, `rename` regular expressions
    on the file's names with what stands in their place, in this order; `is_strict`: all of both must fit.
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
        """A name of the file, as the user would have it."""
        for pattern, replacement in self.rename:
            name = re.sub(pattern, replacement, name)
        return name


@dataclass
class Match:
    """What fits: `pairs` has the model's name -> the file's; and what doesn't, by the model's and the file's names."""

    pairs: dict[str, str] = field(default_factory=dict)
    not_in_file: list[str] = field(default_factory=list)
    not_in_model: list[str] = field(default_factory=list)
    other_shapes: list[str] = field(default_factory=list)
    left_out: int = 0
    wanted: int = 0

    @property
    def problems(self) -> list[str]:
        """What doesn't fit, a line each."""
        return [
            *self.other_shapes,
            *(f"{name}: not in the file" for name in self.not_in_file),
            *(f"{name}: not in the model" for name in self.not_in_model),
        ]

    def report(self) -> str:
        """One line: how much was loaded, and what was not."""
        parts = [f"{len(self.pairs)} of {self.wanted} arrays loaded"]
        lists = (("not in the file", self.not_in_file), ("not in the model", self.not_in_model),
                 ("of another shape", self.other_shapes))  # fmt: skip
        parts += [f"{len(names)} {what} ({shown(names)})" for what, names in lists if names]
        if self.left_out:
            parts.append(f"{self.left_out} left out by include or exclude")
        return "; ".join(parts)


def matched(
    model: Mapping[str, Shape],
    file: Mapping[str, Shape],
    selection: Selection,
    prefix: str = "",
    aliases: Collection[str] = (),
) -> Match:
    """Match the names of a model, or of a part of one, with those of a file.

    Names of the file may have the part's `prefix` ("net.backbone.") or not, and the prefix of a wrapper; of these
    readings the one that fits most names counts, so a file is never read partly in one way and partly in another.
    `aliases` are second names of the model's arrays, which a file may lack.
    """
    renamed = {name: selection.renamed(name) for name in file}
    readings = [_reading(renamed, change) for change in _changes(prefix)]
    names = max(readings, key=lambda reading: sum(name in model for name in reading))  # the first of equal ones
    match = Match(wanted=sum(map(selection.wants, model)), left_out=sum(not selection.wants(name) for name in model))
    for name, shape in model.items():
        if not selection.wants(name):
            continue
        if name not in names:
            if name in aliases or name.endswith(COUNTERS):
                match.wanted -= 1
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
    """The ways to read a file's names: as they are, without a wrapper's prefix, and each without the part's."""
    changes: list[Callable[[str], str | None]] = [lambda name: name]
    changes += [_without(wrapper) for wrapper in WRAPPERS]
    if prefix:
        changes += [_without(prefix), *(_without(wrapper + prefix) for wrapper in WRAPPERS)]
    return changes


def _without(prefix: str) -> Callable[[str], str | None]:
    return lambda name: name.removeprefix(prefix) if name.startswith(prefix) else None


def _reading(names: Mapping[str, str], change: Callable[[str], str | None]) -> dict[str, str]:
    """The model's names that the file's stand for, each with the file's own; names outside of the part are no part."""
    return {changed: origin for origin, name in names.items() if (changed := change(name)) is not None}


def shown(names: Sequence[str]) -> str:
    """The first of the names."""
    rest = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")

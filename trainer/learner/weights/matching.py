"""Matches the arrays of a file with those of a model by name, following the user's rules. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from trainer import TrainerError

Shape = tuple[int, ...]
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
    """The result: `pairs` maps the model's names to the file's; the rest lists names that don't match.

    Attributes:
        shapes, file: shapes of the model's arrays and of the file's, by name.
        initialized: arrays of the head that keep their initial values, with the reason.
        unused: components of the file that the loaded part of the model doesn't have, such as another task's head.
        prefix: the prefix of the file's names, such as "network.backbone.".
    """

    shapes: Mapping[str, Shape]
    file: Mapping[str, Shape]
    pairs: dict[str, str] = field(default_factory=dict)
    not_in_file: list[str] = field(default_factory=list)
    not_in_model: list[str] = field(default_factory=list)
    other_shapes: list[str] = field(default_factory=list)
    initialized: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    prefix: str = ""
    left_out: int = 0
    requested: int = 0

    @property
    def problems(self) -> list[str]:
        """The mismatches, one per line: the first of each kind."""
        kinds = (
            self.other_shapes,
            [f"{name}: not in the file; the model has shape {self.shapes[name]}" for name in self.not_in_file],
            [f"{name}: not in the model; the file has shape {self.file[name]}" for name in self.not_in_model],
        )
        lines = []
        for kind in kinds:
            rest = len(kind) - MOST_SHOWN
            lines += [*kind[:MOST_SHOWN], *([f"and {rest} more"] if rest > 0 else [])]
        return lines

    def report(self) -> str:
        """One line: how many arrays were loaded, and which were not."""
        place = f" from {self.prefix.rstrip('.')}" if self.prefix else ""
        parts = [f"{len(self.pairs)} of {self.requested} arrays loaded{place}"]
        if self.initialized:
            parts.append(f"the head is initialized ({shown(self.initialized)})")
        lists = (("not in the file", self.not_in_file), ("not in the model", self.not_in_model),
                 ("with another shape", self.other_shapes))  # fmt: skip
        parts += [f"{len(names)} {what} ({shown(names)})" for what, names in lists if names]
        if self.unused:
            parts.append(f"not used: {shown(self.unused)}")
        if self.left_out:
            parts.append(f"{self.left_out} excluded by include or exclude")
        return "; ".join(parts)


def matched(
    model: Mapping[str, Shape],
    file: Mapping[str, Shape],
    selection: Selection,
    prefix: str = "",
    *,
    aliases: Collection[str] = (),
    heads: Iterable[Collection[str]] = (),
    is_part: bool = False,
) -> Match:
    """Matches the names of a model, or of a part of it, with those of a file.

    Names of the file may have a prefix, as in a checkpoint ("network."), in a larger model ("network.backbone.") or in
    a wrapper ("module."). The one under which the most arrays fit is used; arrays without it are ignored.

    Args:
        model, file: shapes by name.
        selection: the user's rules.
        prefix: the prefix of the model's names in a checkpoint, preferred if several prefixes fit equally well.
        aliases: alternative names of the model's arrays, which a file may lack.
        heads: groups of the model's names that may differ; each group is loaded or initialized as a whole.
        is_part: whether the file may have further components next to those of the model.

    Raises:
        TrainerError: different arrays fit equally well under several prefixes.
    """
    names, used = _reading({selection.renamed(name): name for name in file}, model, file, prefix)
    match = Match(
        model, file, prefix=used, requested=sum(map(selection.wants, model)),
        left_out=sum(not selection.wants(name) for name in model),
    )  # fmt: skip
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
    components = {name.partition(".")[0] for name in model}
    for name, origin in names.items():
        if name in model or name.endswith(COUNTERS) or _excluded(selection, name):
            continue
        (match.unused if is_part and name.partition(".")[0] not in components else match.not_in_model).append(origin)
    match.unused = list(dict.fromkeys(_component(origin, used) for origin in match.unused))
    for head in heads:
        _initialize(match, head)
    return match


def _initialize(match: Match, head: Collection[str]) -> None:
    """Initializes a head if any of its arrays differs: loads none of it."""
    differing = [line for line in match.other_shapes if line.partition(":")[0] in head]
    missing = [name for name in match.not_in_file if name in head]
    if not differing and not missing:
        return
    match.other_shapes = [line for line in match.other_shapes if line not in differing]
    match.not_in_file = [name for name in match.not_in_file if name not in head]
    fitting = [name for name in match.pairs if name in head]
    match.pairs = {name: origin for name, origin in match.pairs.items() if name not in head}
    match.requested -= len(differing) + len(missing) + len(fitting)
    match.initialized += [*differing, *(f"{name}: not in the file" for name in missing), *fitting]


def _reading(
    renamed: Mapping[str, str], model: Mapping[str, Shape], file: Mapping[str, Shape], own: str
) -> tuple[dict[str, str], str]:
    """The file's names without the prefix under which the most arrays fit the model, each with the original name; and
    the prefix.
    """
    scores = {"": (0, 0), own: (0, 0)}  # for each prefix, arrays with equal names and shapes, and with equal names
    for name, origin in renamed.items():
        for start in (0, *(place + 1 for place, letter in enumerate(name) if letter == ".")):
            if (shape := model.get(name[start:])) is not None:
                equal, named = scores.get(name[:start], (0, 0))
                scores[name[:start]] = equal + (file[origin] == shape), named + 1
    best = max(scores.values())
    candidates = [prefix for prefix, score in scores.items() if score == best]
    chosen = candidates[0]
    if best[0] and chosen not in ("", own) and len(candidates) > 1:
        raise TrainerError(
            "the weights fit in several places of the file", found=shown([prefix.rstrip(".") for prefix in candidates]),
            expected="one place", hint=f"Choose one: `rename: {{'^{re.escape(chosen)}': ''}}` next to `weights`.",
        )  # fmt: skip
    return _without(renamed, chosen), chosen


def _without(names: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): origin for name, origin in names.items() if name.startswith(prefix)}


def _component(name: str, prefix: str) -> str:
    """The first component of a file's name after the prefix."""
    return prefix + name.removeprefix(prefix).partition(".")[0]


def _excluded(selection: Selection, name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in selection.exclude)


def shown(names: Sequence[str]) -> str:
    """The first of the names."""
    rest = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")

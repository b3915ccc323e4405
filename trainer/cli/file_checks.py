"""Checks the folders, files and splits that a configuration names, without reading their contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.configs import Loaded, Problem, RecipeIndex
from trainer.configs.checks import sections_of
from trainer.configs.custom_class import names_own_class
from trainer.configs.monitored_metrics import no_validation, share_of_train
from trainer.configs.problems import KeyPath, did_you_mean
from trainer.configs.readers.splits import SPLIT, TRAIN, VALID, split_words
from trainer.configs.schedules import OwnSchedule
from trainer.configs.task import load_declaration

if TYPE_CHECKING:
    from trainer.configs.readers import Reading

AUTO = "auto"
MOST_NEARBY = 8
_OF_CHECKPOINTS = ("checkpoints", "manifest.json", "latest")
_ROOT: KeyPath = ("data", "root")
_READER: KeyPath = ("data", "reader")
_FRACTIONS: KeyPath = ("data", "reader", "fractions")


@dataclass
class Surroundings:
    """The results of `problems`, a rule of `trainer.configs.load`.

    Attributes:
        splits: the number of items by split (None: known only after reading the data); None: unknown.
        layout: the format of the data as text, and how it was detected or which reader is set.
        line: the folder, the format and the splits in one line; None if unknown.
        warnings: possible problems.
    """

    splits: Mapping[str, int | None] | None = None
    layout: str | None = None
    line: str | None = None
    is_detected: bool = False
    warnings: list[str] = field(default_factory=list)

    def problems(self, loaded: Loaded) -> Iterator[Problem]:
        """Yields a problem for everything named in the configuration that is missing or does not fit the task."""
        yield from _weights(loaded)
        yield from _own_code(loaded)
        root = loaded.config.data.root
        if root is not None and not root.exists() and (loaded.config.data.reader or loaded.declaration):
            yield loaded.problem(
                _ROOT,
                f"no such data folder: {root}",
                found=_nearby(root),
                expected="the folder of the data",
                hint="Set data.root to an existing folder; relative paths start from the file or shell that sets them.",
            )
        elif root is not None and root.is_dir() and loaded.config.data.reader is not None:
            yield from self._data(loaded, loaded.config.data.reader, root)

    def _data(self, loaded: Loaded, reader: Reading, root: Path) -> Iterator[Problem]:
        if _is_read_otherwise(loaded, reader, root):
            return
        section, found = reader, None
        try:
            if reader.name == AUTO:
                section, found = self._detected(reader, root)
            else:
                words = _words(reader, root)
                yield from _reader_paths(loaded, reader, root, words)
                found = dict.fromkeys(words)
                self.layout = reader.name
        except TrainerError as error:
            yield as_problem(loaded, _ROOT if reader.name == AUTO else _divided(reader), error)
        if found is None:
            return
        shares = _shares(loaded, reader, found)
        if isinstance(shares, Problem):
            yield shares
            return
        self.splits = shares
        counted = ", ".join(split if items is None else f"{split} {items}" for split, items in shares.items())
        taken = f"; with fractions: {counted}" if reader.fractions else ""
        self.line = f"{self.line}{taken}" if self.is_detected else f"{root}: {self.layout}: {counted}"
        yield from _splits(loaded, shares)
        yield from _fields(loaded, section, str(self.layout))
        items, batch = shares.get(TRAIN), loaded.config.data.batch_size
        if items is not None and batch != "auto" and batch > items:
            self.warnings.append(
                f"data.batch_size: a batch of {batch} is larger than the {items} items of train and is padded; "
                f"data.batch_size={items} is faster"
            )

    def _detected(self, reader: Reading, root: Path) -> tuple[Reading, dict[str, int | None]]:
        from trainer.datasets.layouts import detect  # the import takes time
        from trainer.datasets.readers.reading import section_of

        layout = detect(root, reader.form)
        self.layout, self.line, self.is_detected = layout.format, f"{root}: {layout.line()}", True
        first = next(iter(layout.splits.values()))
        return section_of(first.settings, reader), {split: part.items for split, part in layout.splits.items()}

    def to_json(self) -> dict[str, Any]:
        """The layout and the splits, as plain data."""
        return {"layout": self.layout, "splits": None if self.splits is None else dict(self.splits)}


def _weights(loaded: Loaded) -> Iterator[Problem]:
    for path, section in sections_of(loaded.config):
        weights = getattr(section, "weights", None)
        if not isinstance(weights, Path):
            continue
        here: KeyPath = (*path, "weights")
        if not weights.exists():
            yield loaded.problem(here, f"no such file: {weights}", found=_nearby(weights),
                                 expected="a weights file, a checkpoint or a run directory")  # fmt: skip
        elif weights.is_dir() and not any((weights / part).exists() for part in _OF_CHECKPOINTS):
            entries = sorted(entry.name for entry in weights.iterdir())
            yield loaded.problem(
                here,
                f"the folder {weights} holds no checkpoint",
                found=", ".join(entries[:MOST_NEARBY]) or "an empty folder",
                expected="a run directory, a checkpoint in its checkpoints/, or a weights file",
            )


def _own_code(loaded: Loaded) -> Iterator[Problem]:
    """Checks that the files of custom classes exist; their code is not run."""
    for path, section in sections_of(loaded.config):
        name = getattr(section, "name", None)
        if not isinstance(section, OwnSchedule) and names_own_class(name):
            file = Path(str(name).rpartition(":")[0])
            if not file.is_file():
                yield loaded.problem((*path, "name"), f"no such file: {file}", found=_nearby(file),
                                     expected="a Python file that defines the class")  # fmt: skip


def _words(reader: Reading, root: Path) -> dict[str, str | None]:
    """The name of each split in paths or in a table's column."""
    if reader.settings().get("split_column") is None:
        return split_words(reader, root)
    from trainer.datasets.readers.reading import words_of_splits  # the import takes time

    return words_of_splits(reader, root)


def _divided(reader: Reading) -> KeyPath:
    """The first key of the reader with a path that depends on the split; the reader if there is none."""
    keys = [key for key, value in reader.settings().items() if isinstance(value, str) and SPLIT in value]
    return (*_READER, keys[0]) if keys else _READER


def _reader_paths(loaded: Loaded, reader: Reading, root: Path, words: Mapping[str, str | None]) -> Iterator[Problem]:
    """Checks that the paths in the configured reader exist."""
    settings = reader.settings()
    lists = settings.get("image_set") is not None  # these lists contain the paths of the images
    for key in type(reader).paths:
        value = settings.get(key)
        if not isinstance(value, str) or (lists and key == "images"):
            continue
        for word in dict.fromkeys(words.values()):
            path = root / (value if word is None else value.replace(SPLIT, word))
            if not path.exists():
                yield loaded.problem(
                    (*_READER, key),
                    f"no such file or folder: {path}",
                    found=_nearby(path),
                    expected=f"a path in data.root ({root})",
                    hint="Remove data.reader to let the layout of the folder be detected.",
                )


def _shares(loaded: Loaded, reader: Reading, found: Mapping[str, int | None]) -> dict[str, int | None] | Problem:
    """The number of items by split, including splits taken from train; or a problem."""
    if not reader.fractions:
        return dict(found)
    taken = [split for split in reader.fractions if split in found]
    if taken or sum(reader.fractions.values()) >= 1 or TRAIN not in found:
        return loaded.problem(
            _FRACTIONS,
            "the fractions can't be taken from train",
            found=", ".join(f"{split}: {share:g}" for split, share in reader.fractions.items())
            + f"; the data has {', '.join(found)}",
            expected="a train split, names other than those of existing splits, fractions with a sum below 1",
            hint=f"Remove {' and '.join(taken)}." if taken else None,
        )
    whole = found[TRAIN]
    shares = {split: None if whole is None else round(share * whole) for split, share in reader.fractions.items()}
    rest = None if whole is None else whole - sum(items or 0 for items in shares.values())
    return {TRAIN: rest, **{split: items for split, items in found.items() if split != TRAIN}, **shares}


def _splits(loaded: Loaded, splits: Mapping[str, int | None]) -> Iterator[Problem]:
    """Checks that the splits that the task needs or that are evaluated exist."""
    there = ", ".join(split if items is None else f"{split}: {items} items" for split, items in splits.items())
    needed = loaded.declaration.splits if loaded.declaration is not None else (TRAIN,)
    for split in needed:
        if split not in splits:
            yield loaded.problem(_ROOT, f"the task needs a split {split}, which doesn't exist", found=there,
                                 expected=", ".join(needed), hint=share_of_train(split))  # fmt: skip
    missing = no_validation(loaded.config, splits)
    if missing is None or VALID in needed:
        return
    for path in missing.paths:
        yield loaded.problem(path, missing.message, found=missing.found, expected=missing.expected,
                             hint=missing.hint([path]), rests_on=(_FRACTIONS,))  # fmt: skip


def _fields(loaded: Loaded, section: Reading, layout: str) -> Iterator[Problem]:
    """Checks that the data has all item fields that the task needs."""
    given = section.fields()
    if loaded.declaration is None or given is None:
        return
    missing = [name for name in loaded.declaration.fields if name not in given]
    if not missing:
        return
    task = loaded.task.recipe or loaded.task.class_name or loaded.task.module
    recipes = _listed(_recipes_for(given))
    yield loaded.problem(
        _ROOT,
        f"{task} needs {', '.join(missing)}, which this data doesn't have",
        found=f"{layout}, whose items have {', '.join(given)}",
        expected=", ".join(loaded.declaration.fields),
        hint=f"Use the recipe {recipes} for this data."
        if recipes
        else "Set data.root to a folder whose items have these fields.",
    )


def _listed(names: list[str]) -> str:
    """Alternatives as a phrase: "a", "a or b", "a, b or c"."""
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _recipes_for(fields: tuple[str, ...]) -> list[str]:
    """The recipes that use most of these fields and no others."""
    from trainer.configs.problems import Place
    from trainer.configs.task import find_task

    recipes, found = RecipeIndex.built_in(), dict[str, int]()
    for name in recipes.names():
        task = find_task(name, Place(name), recipes)
        declaration = None if isinstance(task, Problem) else load_declaration(task)
        if declaration is not None and not isinstance(declaration, Problem) and set(declaration.fields) <= set(fields):
            found[name] = len(declaration.fields)
    return [name for name, count in found.items() if count == max(found.values()) and count > 1]


def _is_read_otherwise(loaded: Loaded, reader: Reading, root: Path) -> bool:
    """Whether only the task's code can read this data."""
    own = () if loaded.declaration is None else loaded.declaration.own_data
    return reader.name != AUTO and any((root / file).exists() for file in own)


def as_problem(loaded: Loaded, path: KeyPath, error: TrainerError) -> Problem:
    """A reading error as a problem with the value at `path`."""

    def text(value: object) -> str | None:
        return None if value is None else str(value)

    message = f"{error.where}: {error.message}" if error.where else error.message
    return loaded.problem(path, message, found=text(error.found), expected=text(error.expected), hint=error.hint)


def _nearby(path: Path) -> str:
    """Lists the contents of the nearest existing parent folder of a missing path."""
    parent = path.parent
    while not parent.is_dir():
        parent = parent.parent
    entries = sorted(entry.name for entry in parent.iterdir() if not entry.name.startswith("."))
    guess = did_you_mean(path.name, entries) if parent == path.parent else ""
    listed = ", ".join(entries[:MOST_NEARBY]) + (", …" if len(entries) > MOST_NEARBY else "")
    return f"in {parent}: {listed or 'nothing'}" + (guess if guess.startswith(", did") else "")

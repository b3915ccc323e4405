"""Texts as tokens: one long text cut into pieces, or a file of lines for each class."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import Item
from trainer.datasets.readers.files import files_in, read_text
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.vocabulary import Unit, Vocabulary


class TextFile:
    """Items {tokens [length]}: pieces of one text, for models that predict the next token.

    A piece begins with the last token of the one before, so that every token but the first is predicted once; what
    doesn't fill a piece at the end is left out. `class_names` are the tokens.

    Args:
        root: the folder of the data.
        file: the text, UTF-8, relative to it.
        unit: what a token is.
        length: tokens of an item.
        vocabulary_size: size of the vocabulary without the two special tokens, the most frequent ones; None: all.
        vocabulary: the tokens themselves (of another split); None: those that occur.

    Raises:
        TrainerError: the file is missing, not UTF-8, or shorter than one piece.
    """

    def __init__(
        self,
        root: Path,
        *,
        file: str,
        unit: Unit = "characters",
        length: int = 129,
        vocabulary_size: int | None = None,
        vocabulary: Sequence[str] | None = None,
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        self.path, self.length = root / file, length
        text = read_text(self.path)
        known = Vocabulary.of(unit, [text], vocabulary_size) if vocabulary is None else Vocabulary(unit, vocabulary)
        self.vocabulary = known
        self.tokens = self.vocabulary.encode(text)
        if len(self) < 1:
            raise TrainerError(
                "the text is shorter than one item",
                where=str(self.path),
                found=f"{len(self.tokens)} {unit}",
                expected=f"at least {length}",
            )

    @property
    def class_names(self) -> Sequence[str]:
        return self.vocabulary.tokens

    def shared_settings(self) -> Mapping[str, Any]:
        """What the other splits must take over."""
        return {"vocabulary": self.vocabulary.tokens}

    def __len__(self) -> int:
        return max(0, (len(self.tokens) - 1) // (self.length - 1))

    def source(self, index: int) -> str:
        start = index * (self.length - 1)
        return f"{self.path}: {self.vocabulary.unit} {start} to {start + self.length}"

    def __getitem__(self, index: int) -> Item:
        start = index * (self.length - 1)
        return {"tokens": self.tokens[start : start + self.length]}


class TextClasses:
    """Items {tokens, label}: each line of `<class>.txt`, of the class that its file is named for.

    Args:
        root: the folder of the data.
        folder: where the files are, relative to it.
        unit: what a token is.
        vocabulary_size: size of the vocabulary without the two special tokens, the most frequent ones; None: all.
        classes: names in the order of the labels; None: all files, in the order of their names.
        vocabulary: the tokens themselves (of another split); None: those that occur.

    Raises:
        TrainerError: there is no such folder, no text file in it, a class has none, or one is not UTF-8.
    """

    def __init__(
        self,
        root: Path,
        *,
        folder: str = ".",
        unit: Unit = "characters",
        vocabulary_size: int | None = None,
        classes: Sequence[str] | None = None,
        vocabulary: Sequence[str] | None = None,
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        self.folder = root / folder
        present = [name.removesuffix(".txt") for name in files_in(self.folder, (".txt",), progress=opening.progress)]
        self.class_names: Sequence[str] = tuple(sorted(present) if classes is None else classes)
        self.lines: list[str] = []
        self._numbers: list[int] = []
        labels: list[int] = []
        for label, name in enumerate(self.class_names):
            for number, line in enumerate(read_text(self.folder / f"{name}.txt").split("\n"), 1):
                if line.strip():
                    self.lines.append(line.strip())
                    self._numbers.append(number)
                    labels.append(label)
        self.labels = np.array(labels, np.int64)
        known = Vocabulary.of(unit, self.lines, vocabulary_size) if vocabulary is None else Vocabulary(unit, vocabulary)
        self.vocabulary = known

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """int64 [N]: how many tokens each item has."""
        return np.array([len(self.vocabulary.encode(line)) for line in self.lines], np.int64)

    def shared_settings(self) -> Mapping[str, Any]:
        """What the other splits must take over."""
        return {"classes": self.class_names, "vocabulary": self.vocabulary.tokens}

    def __len__(self) -> int:
        return len(self.lines)

    def source(self, index: int) -> str:
        return f"{self.folder / self.class_names[self.labels[index]]}.txt:{self._numbers[index]}"

    def __getitem__(self, index: int) -> Item:
        return {"tokens": self.vocabulary.encode(self.lines[index]), "label": np.array(self.labels[index])}

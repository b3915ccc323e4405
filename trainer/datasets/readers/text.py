"""Texts as tokens: one long text cut into sequences, or one file of lines per class."""

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
    """Items {tokens [length]}: sequences of one text, for next-token prediction.

    Consecutive sequences overlap by one token, so that every token except the first is predicted once; the incomplete
    sequence at the end is dropped. `class_names` are the tokens.

    Args:
        root: the data folder.
        file: the text, UTF-8, relative to it.
        unit: unit of a token.
        length: tokens per item.
        vocabulary_size: maximum vocabulary size without the two special tokens, the most frequent ones; None: all.
        vocabulary: list of tokens (of another split); None: the tokens that occur.

    Raises:
        TrainerError: the file is missing, not UTF-8, or shorter than one sequence.
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
        """The settings that other splits must share."""
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
    """Items {tokens, label}: each line of `<class>.txt`.

    Args:
        root: the data folder.
        folder: folder of the files, relative to it.
        unit: unit of a token.
        vocabulary_size: maximum vocabulary size without the two special tokens, the most frequent ones; None: all.
        classes: class names in the order of the labels; None: the names of all files, sorted.
        vocabulary: list of tokens (of another split); None: the tokens that occur.

    Raises:
        TrainerError: the folder is missing or has no text file, the file of a class is missing, or one is not UTF-8.
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
        """int64 [N]: number of tokens of each item."""
        return np.array([len(self.vocabulary.encode(line)) for line in self.lines], np.int64)

    def shared_settings(self) -> Mapping[str, Any]:
        """The settings that other splits must share."""
        return {"classes": self.class_names, "vocabulary": self.vocabulary.tokens}

    def __len__(self) -> int:
        return len(self.lines)

    def source(self, index: int) -> str:
        return f"{self.folder / self.class_names[self.labels[index]]}.txt:{self._numbers[index]}"

    def __getitem__(self, index: int) -> Item:
        return {"tokens": self.vocabulary.encode(self.lines[index]), "label": np.array(self.labels[index])}

"""Texts as tokens: long texts cut into windows, or one file of lines per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import Dataset, Subset
from trainer.datasets.fields import LENGTH, Batch, Item
from trainer.datasets.paths import missing_file
from trainer.datasets.readers.division import Division
from trainer.datasets.readers.files import files_in, read_text
from trainer.datasets.readers.opening import Opening
from trainer.datasets.split_words import TRAIN
from trainer.datasets.vocabulary import Unit, Vocabulary


class TokenWindows:
    """Items {tokens [length]}: windows of one array of tokens, for next-token prediction.

    Consecutive windows overlap by one token, so that every token except the first is predicted once; the incomplete
    window at the end is dropped. `class_names` are the tokens of the vocabulary.

    Args:
        tokens: integers [L], in memory or mapped from a file.
        length: tokens per item.
        where: origin of the tokens, for messages.

    Raises:
        TrainerError: there are fewer tokens than one window.
    """

    def __init__(self, tokens: np.ndarray, length: int, vocabulary: Vocabulary, where: str) -> None:
        self.tokens, self.length, self.vocabulary, self.where = tokens, length, vocabulary, where
        if len(self) < 1:
            unit = vocabulary.unit.replace("_", " ")
            raise TrainerError(
                "the text is shorter than one item" if len(tokens) else "the text is empty",
                where=where,
                found=f"{len(tokens)} {unit}",
                expected=f"at least {length}",
                hint="Set a smaller data.reader.length, or larger fractions for small splits." if len(tokens) else None,
            )

    @property
    def class_names(self) -> Sequence[str]:
        return self.vocabulary.tokens

    def shared_settings(self) -> Mapping[str, Any]:
        """The settings that other splits must share."""
        return {"vocabulary": self.vocabulary.tokens}

    @property
    def sizes(self) -> np.ndarray:
        """int64 [N]: number of tokens of each item."""
        return np.full(len(self), self.length, np.int64)

    def __len__(self) -> int:
        return max(0, (len(self.tokens) - 1) // (self.length - 1))

    def source(self, index: int) -> str:
        start = index * (self.length - 1)
        return f"{self.where}: {self.vocabulary.unit.replace('_', ' ')} {start} to {start + self.length}"

    def __getitem__(self, index: int) -> Item:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = index * (self.length - 1)
        return {"tokens": np.array(self.tokens[start : start + self.length], np.int32)}

    def take(self, indices: np.ndarray) -> Batch:
        """The items `indices` as one batch, with their `length`."""
        places = np.asarray(indices, np.int64)[:, None] * (self.length - 1) + np.arange(self.length)
        return {
            "tokens": np.asarray(self.tokens[places], np.int32),
            LENGTH: np.full(len(places), self.length, np.int64),
        }


class TextFile(TokenWindows):
    """The windows of a text file, or of a folder of them, one after the other.

    Args:
        root: the data folder.
        file: a text in UTF-8, or a folder whose .txt files are read in the order of their names, relative to `root`.
        unit: unit of a token.
        length: tokens per item.
        vocabulary_size: size of the vocabulary, as in `Vocabulary.of`.
        vocabulary: list of tokens (of another split); None: made from the text of train.
        division: the splits that `divided` takes from the text.

    Raises:
        TrainerError: the file is missing, not UTF-8, or shorter than one window.
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
        division: Division = Division(),  # noqa: B008 - frozen
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        self.path = root / file
        text = "".join(map(read_text, _text_files(self.path, opening)))
        parts = {split: text[part.start : part.stop] for split, part in division.ranges(len(text)).items()}
        known = Vocabulary(unit, vocabulary) if vocabulary is not None else Vocabulary.of(
            unit, [parts[TRAIN]], vocabulary_size)  # fmt: skip
        super().__init__(known.encode(parts[TRAIN]), length, known, str(self.path))
        self._others = {
            split: TokenWindows(known.encode(part), length, known, f"{self.path} ({split})")
            for split, part in parts.items() if split != TRAIN
        }  # fmt: skip

    def divided(self) -> dict[str, Dataset]:
        """The data set of each split: train is the start of the text, the others follow in the order of `fractions`."""
        return {TRAIN: self, **self._others}


class LabeledTexts:
    """Items {tokens, label}, one per text.

    Attributes:
        texts: the text of each item. labels: int64 [N].
        vocabulary: that of the texts of train. sizes: int64 [N], number of tokens of each item.
    """

    is_in_memory = True

    def __init__(
        self, texts: Sequence[str], labels: np.ndarray, *, unit: Unit, vocabulary_size: int | None,
        vocabulary: Sequence[str] | None, division: Division,
    ) -> None:  # fmt: skip
        self.texts, self.labels, self._division = list(texts), labels, division
        self._parts = division.stratified(self.texts, labels) if division.fractions else None
        if vocabulary is not None:
            self.vocabulary = Vocabulary(unit, vocabulary)
        else:
            train = range(len(self.texts)) if self._parts is None else self._parts[TRAIN]
            self.vocabulary = Vocabulary.of(unit, (self.texts[index] for index in train), vocabulary_size)
        self._tokens = [self.vocabulary.encode(text) for text in self.texts]
        self.sizes = np.array([len(tokens) for tokens in self._tokens], np.int64)

    def divided(self) -> dict[str, Dataset]:
        """The data set of each split: classes in equal proportions, equal texts in one split."""
        return {split: Subset(self, part) for split, part in (self._parts or {}).items()}  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Item:
        return {"tokens": self._tokens[index], "label": np.array(self.labels[index])}


class TextClasses(LabeledTexts):
    """Items {tokens, label}: each line of `<class>.txt`.

    Args:
        root: the data folder.
        folder: folder of the files, relative to `root`.
        unit: unit of a token.
        vocabulary_size: size of the vocabulary, as in `Vocabulary.of`.
        classes: class names in the order of the labels; None: the names of all files, sorted.
        vocabulary: list of tokens (of another split); None: made from the texts of train.
        division: the splits that `divided` takes from the texts.

    Raises:
        TrainerError: the folder is missing or has no text file, the file of a class is missing or is not a class, or a
            file is empty or not UTF-8.
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
        division: Division = Division(),  # noqa: B008 - frozen
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        self.folder = root / folder
        present = [name.removesuffix(".txt") for name in files_in(self.folder, (".txt",), progress=opening.progress)]
        self.class_names: Sequence[str] = tuple(sorted(present) if classes is None else classes)
        unknown = [name for name in present if name not in self.class_names]
        if unknown:
            raise TrainerError(
                "a file has the name of no class",
                where=str(self.folder / f"{unknown[0]}.txt"),
                found=", ".join(unknown[:12]),
                expected=", ".join(self.class_names[:12]),
                hint="Train has no such class, or data.reader.classes leaves it out.",
            )
        lines: list[str] = []
        self._numbers: list[int] = []
        labels: list[int] = []
        for label, name in enumerate(self.class_names):
            for number, line in enumerate(read_text(self.folder / f"{name}.txt").split("\n"), 1):
                if line.strip():
                    lines.append(line.strip())
                    self._numbers.append(number)
                    labels.append(label)
            if label not in labels[-1:]:
                raise TrainerError(
                    "a class has no texts", where=str(self.folder / f"{name}.txt"), found="an empty file",
                    expected="one text per line",
                )  # fmt: skip
        super().__init__(
            lines, np.array(labels, np.int64), unit=unit, vocabulary_size=vocabulary_size, vocabulary=vocabulary,
            division=division,
        )  # fmt: skip

    def shared_settings(self) -> Mapping[str, Any]:
        """The settings that other splits must share."""
        return {"classes": self.class_names, "vocabulary": self.vocabulary.tokens}

    def source(self, index: int) -> str:
        return f"{self.folder / self.class_names[self.labels[index]]}.txt:{self._numbers[index]}"


def _text_files(path: Path, opening: Opening) -> list[Path]:
    if path.is_dir():
        return [path / name for name in files_in(path, (".txt",), progress=opening.progress)]
    if not path.exists():
        raise missing_file(path)
    return [path]

"""Many documents as rows of one length, from token files in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec
import numpy as np

from trainer import TrainerError, cache_folder
from trainer.datasets.dataset import Dataset
from trainer.datasets.readers.division import Division
from trainer.datasets.readers.files import files_in, read_text
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.text import TokenWindows
from trainer.datasets.split_words import TRAIN
from trainer.datasets.vocabulary import Unit, Vocabulary

_VERSION = 1
"""Version of the token files, a part of their key."""

_SUFFIXES = (".txt", ".jsonl", ".ndjson")
_BLOCK = 1 << 20

_SETTLED = 2_000_000_000
"""Nanoseconds after which a further change of a file gets a different modification time in every file system."""


class Documents(TokenWindows):
    """Items {tokens [length]}: documents one after the other, each followed by the token `END`, cut into rows.

    Tokens are written once to a file in the cache and mapped into memory, so that a data set may be larger than memory.
    The name of the file is a digest of the documents, the vocabulary and the split: a changed document is tokenized
    again. Files whose names, sizes and modification times are known are not read. The folder is `tokens` in
    TRAINER_CACHE_DIR or ~/.cache/trainer.

    Args:
        root: the data folder.
        folder: folder of the documents, with its subfolders, relative to `root`: each .txt file is a document, and each
            line of .jsonl and .ndjson files.
        text: field of the text in a line of JSON.
        unit: unit of a token.
        length: tokens per item.
        vocabulary_size: size of the vocabulary, as in `Vocabulary.of`.
        vocabulary: list of tokens (of another split); None: made from the documents of train.
        division: the splits that `divided` takes from the documents.

    Raises:
        TrainerError: no documents, a document without text, not UTF-8, or fewer tokens than one row.
    """

    def __init__(
        self,
        root: Path,
        *,
        folder: str = ".",
        text: str = "text",
        unit: Unit = "byte_pairs",
        length: int = 129,
        vocabulary_size: int | None = None,
        vocabulary: Sequence[str] | None = None,
        division: Division = Division(),  # noqa: B008 - frozen
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        self.folder, self._opening = root / folder, opening
        names = files_in(self.folder, _SUFFIXES, below=True, progress=opening.progress)
        self._files, self._text = [self.folder / name for name in names], text
        cache = token_cache()
        source, count = _contents(self._files, cache)
        if not count:
            raise TrainerError("there are no documents", where=str(self.folder), found="empty files")
        parts = division.items(count) if division.fractions else {TRAIN: np.arange(count)}
        if vocabulary is None:
            key = [_VERSION, source, text, unit, vocabulary_size, *map(str, parts[TRAIN])]
            vocabulary = self._vocabulary(cache / f"{_key(key)}.json", parts[TRAIN], unit, vocabulary_size)
        known = Vocabulary(unit, vocabulary)
        rows = {}
        for split, chosen in parts.items():
            key = [_VERSION, source, text, unit, *known.tokens, *map(str, chosen)]
            rows[split] = self._tokens(cache / f"{_key(key)}.tokens", chosen, known)
        super().__init__(rows[TRAIN], length, known, str(self.folder))
        self._others = {
            split: TokenWindows(tokens, length, known, f"{self.folder} ({split})")
            for split, tokens in rows.items() if split != TRAIN
        }  # fmt: skip

    def divided(self) -> dict[str, Dataset]:
        """The data set of each split."""
        return {TRAIN: self, **self._others}

    def _texts(self, chosen: np.ndarray) -> Iterator[str]:
        """The texts of some documents, given by sorted numbers."""
        numbers, place, number = chosen.tolist(), 0, 0
        for path in self._files:
            for where, document in _units(path):
                if place < len(numbers) and numbers[place] == number:
                    place += 1
                    yield document if path.suffix == ".txt" else _field(document, self._text, where)
                    if self._opening.progress is not None:
                        self._opening.progress(place, len(numbers))
                number += 1

    def _vocabulary(self, path: Path, chosen: np.ndarray, unit: Unit, size: int | None) -> Sequence[str]:
        """The tokens in the file `path`, which is written if it is missing."""
        if not path.exists():
            tokens = Vocabulary.of(unit, self._texts(chosen), size, has_end=True).tokens
            with _written(path) as file:
                file.write(json.dumps(tokens).encode())
        found: list[str] = json.loads(path.read_bytes())
        return found

    def _tokens(self, path: Path, chosen: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
        """The tokens of some documents, mapped from the file `path`, which is written if it is missing."""
        dtype = np.dtype("<u2" if len(vocabulary) <= 1 << 16 else "<u4")
        assert vocabulary.end is not None
        end = np.array([vocabulary.end], dtype)
        if not path.exists():
            with _written(path) as file:
                for text in self._texts(chosen):
                    file.write(vocabulary.encode(text).astype(dtype).tobytes())
                    file.write(end.tobytes())
        return np.memmap(path, dtype, "r")


def token_cache() -> Path:
    """The folder of the token files, in TRAINER_CACHE_DIR or ~/.cache/trainer."""
    return cache_folder() / "tokens"


class _written:
    """A new binary file that appears under its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Any:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = NamedTemporaryFile(dir=self._path.parent, suffix=".part", delete=False)
        return self._file

    def __exit__(self, kind: object, *further: object) -> None:
        self._file.close()
        if kind is None:
            os.replace(self._file.name, self._path)
        else:
            os.unlink(self._file.name)


def _units(path: Path) -> Iterator[tuple[str, str]]:
    """Each document of a file and its origin: the text of a .txt file, a line of JSON otherwise."""
    content = read_text(path)
    if path.suffix == ".txt":
        if content.strip():
            yield str(path), content
        return
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            yield f"{path}:{number}", line


def _field(line: str, name: str, where: str) -> str:
    try:
        record: Mapping[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise TrainerError("a line is not a JSON object", where=where, found=f"{error}: {line[:80]}") from None
    if not isinstance(record.get(name), str):
        raise TrainerError(
            "a document has no text", where=where, found=f"the fields {', '.join(record) or 'of an empty object'}",
            expected=f"text in {name!r}", hint="Set the field with data.reader.text.",
        )  # fmt: skip
    text: str = record[name]
    return text


def _contents(files: Sequence[Path], cache: Path) -> tuple[str, int]:
    """Returns a digest of the files' contents and the number of their documents. Both are cached by the names,
    sizes and modification times of the files.
    """
    states = [(path, path.stat()) for path in files]
    stamps = [f"{path.absolute()}:{state.st_size}:{state.st_mtime_ns}" for path, state in states]
    known = cache / f"{_key([_VERSION, *stamps])}.contents.json"
    if known.exists():
        kept: dict[str, Any] = json.loads(known.read_bytes())
        return kept["digest"], kept["documents"]
    digest, count = _digest(files), sum(1 for path in files for _ in _units(path))
    if max(state.st_mtime_ns for _, state in states) < time.time_ns() - _SETTLED:
        with _written(known) as file:
            file.write(json.dumps({"digest": digest, "documents": count}).encode())
    return digest, count


def _digest(files: Sequence[Path]) -> str:
    """A digest of the contents of some files."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.suffix}:{path.stat().st_size}:".encode())
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _key(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:32]

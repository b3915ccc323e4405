"""Tables: CSV with a line of column names, or JSON lines (one object per line)."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import Dataset, Subset
from trainer.datasets.fields import Item
from trainer.datasets.paths import within
from trainer.datasets.readers.division import Division
from trainer.datasets.readers.files import read_text
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.picture_reader import PictureReader
from trainer.datasets.split_words import TRAIN, in_order, split_named
from trainer.datasets.vocabulary import Unit, Vocabulary

_JSON_LINES = (".jsonl", ".ndjson")


class Table(PictureReader):
    """One item per row: {features float32 [F], tokens, label, labels_hot, value, image}, as far as columns are set.

    Args:
        root: the data folder.
        file: a .csv, .tsv, .jsonl or .ndjson file, UTF-8, relative to `root`.
        features: columns of numbers for `features`; None: none with `image`, otherwise all without another use.
        label: column of the class; its values are texts or numbers.
        labels: columns of 0 or 1 (or probabilities) for `labels_hot`, one per class.
        value: column of the number to predict, for `value` (float32).
        text: column of a text, for `tokens`.
        unit, vocabulary_size, vocabulary: settings of the tokens, as for `TextClasses`.
        image: column of the image path, relative to `images`.
        images: folder of the images, relative to `root`.
        classes: values of `label` in the order of the labels; None: all values, sorted.
        split_column: column of the split; None: every row is an item.
        split_value: only rows with this value in that column, or another name of the same split.
        channels: 1 or 3, the number of channels of every image; None: as in each file.
        division: the splits that `divided` takes from a table of texts.

    Raises:
        TrainerError: the file is missing, not UTF-8, lacks a column or rows. An invalid row is an unusable item.
    """

    def __init__(
        self,
        root: Path,
        *,
        file: str,
        features: Sequence[str] | None = None,
        label: str | None = None,
        labels: Sequence[str] = (),
        value: str | None = None,
        text: str | None = None,
        unit: Unit = "characters",
        vocabulary_size: int | None = None,
        vocabulary: Sequence[str] | None = None,
        image: str | None = None,
        images: str = ".",
        classes: Sequence[str] | None = None,
        split_column: str | None = None,
        split_value: str | None = None,
        channels: Literal[1, 3] | None = 3,
        division: Division = Division(),  # noqa: B008 - frozen
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(channels)
        self.path, self.images, self._image = root / file, root / images, image
        self._label, self._value, self._text = label, value, text
        if label is not None and labels:
            raise TrainerError(
                "label and labels are both set; a row has one class or several",
                where=str(self.path),
                found="label and labels",
            )
        special = [*labels, *(name for name in (label, value, text, image) if name is not None)]
        columns, rows = read_rows(self.path)
        if features is None:
            known = {*special, split_column}
            features = [] if image is not None or text is not None else [name for name in columns if name not in known]
        self.features = tuple(features)
        if split_column is not None:
            check_columns(columns, [split_column], self.path)
            rows = (row for row in rows if _is_of(row[1], split_column, split_value))
        required = [*self.features, *special]
        check_columns(columns, required, self.path)
        self._numbers: list[int] = []
        self._rows: list[Mapping[str, Any] | TrainerError] = []
        for number, row in rows:
            self._numbers.append(number)
            self._rows.append({name: row.get(name) for name in required} if isinstance(row, dict) else row)
        if not self._rows:
            found = None if split_column is None else f"none of {split_column} = {split_value!r}"
            raise TrainerError("the table has no rows", where=str(self.path), found=found)
        self._hot = tuple(labels)
        self.class_names: Sequence[str] = self._hot
        if label is not None:
            occurring = {
                str(row[label]) for row in self._rows if isinstance(row, dict) and row[label] not in (None, "")
            }
            self.class_names = tuple(sorted(occurring, key=_as_number_first) if classes is None else map(str, classes))
        self._labels = {name: number for number, name in enumerate(self.class_names)}
        self._parts = self._divide(division) if division.fractions else None
        self.is_in_memory = image is None
        if text is not None:
            rows_of_train = range(len(self)) if self._parts is None else self._parts[TRAIN]
            self.vocabulary = Vocabulary(unit, vocabulary) if vocabulary is not None else Vocabulary.of(
                unit, (self._text_of(index) for index in rows_of_train), vocabulary_size)  # fmt: skip

    def shared_settings(self) -> Mapping[str, Any]:
        """The settings that other splits must share."""
        return {
            "features": self.features,
            **({"classes": self.class_names} if self._label is not None else {}),
            **({"vocabulary": self.vocabulary.tokens} if self._text is not None else {}),
        }

    def divided(self) -> dict[str, Dataset]:
        """The data set of each split: equal texts in one split, and classes in equal proportions."""
        return {split: Subset(self, part) for split, part in (self._parts or {}).items()}

    def _divide(self, division: Division) -> dict[str, np.ndarray]:
        labels = [
            0 if self._label is None or isinstance(row, TrainerError) else self._labels.get(str(row[self._label]), -1)
            for row in self._rows
        ]
        return division.stratified([self._text_of(index) for index in range(len(self))], labels)

    def _text_of(self, index: int) -> str:
        """The text of a row; empty for an unusable row."""
        row = self._rows[index]
        text = None if isinstance(row, TrainerError) else row[str(self._text)]
        return text if isinstance(text, str) else ""

    @property
    def labels(self) -> np.ndarray | None:
        """int64 [N]: the class of each row; None without classes.

        Raises:
            TrainerError: a row has an unknown class.
        """
        if self._label is None:
            return None
        return np.array([self._label_of(index) for index in range(len(self))], np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def source(self, index: int) -> str:
        return f"{self.path}:{self._numbers[index]}"

    def image_path(self, index: int) -> str:
        row = self._rows[index]
        if self._image is None or isinstance(row, TrainerError):
            return self.source(index)
        return str(self.images / str(row[self._image]))

    @functools.cached_property
    def sizes(self) -> np.ndarray | None:
        """int64 [N, 2]: height and width of each image, 0 if its file is unreadable; int64 [N]: number of tokens of
        each text; None without images and texts.
        """
        if self._image is not None:
            return self.file_sizes()
        if self._text is None:
            return None
        return np.array([len(self.vocabulary.encode(self._text_of(index))) for index in range(len(self))], np.int64)

    def __getitem__(self, index: int) -> Item:
        row, where = self._row(index), self.source(index)
        item: Item = {}
        if self.features:
            numbers = [_number(row[name], name, where) for name in self.features]
            item["features"] = np.array(numbers, np.float32)
        if self._hot:
            item["labels_hot"] = np.array([_share(row[name], name, where) for name in self._hot], np.float32)
        if self._value is not None:
            item["value"] = np.array(_number(row[self._value], self._value, where), np.float32)
        if self._text is not None:
            if not isinstance(row[self._text], str) or not row[self._text]:
                raise TrainerError(
                    "a row has no text", where=where, found=f"{self._text} = {row[self._text]!r}", expected="a text"
                )
            item["tokens"] = self.vocabulary.encode(row[self._text])
        if self._label is not None:
            item["label"] = np.array(self._label_of(index), np.int64)
        if self._image is not None:
            picture = self.picture(within(self.images, str(row[self._image] or ""), where), where)
            item |= {"image": picture.pixels, "size": np.array(picture.size, np.int64)}
        return item

    def _row(self, index: int) -> Mapping[str, Any]:
        row = self._rows[index]
        if isinstance(row, TrainerError):
            raise row
        return row

    def _label_of(self, index: int) -> int:
        word = self._row(index)[str(self._label)]
        if str(word) not in self._labels:
            raise TrainerError(
                "a row has an unknown class" if word not in (None, "") else "a row has no class",
                where=self.source(index),
                found=f"{self._label} = {word!r}",
                expected=", ".join(self.class_names[:12]),
            )
        return self._labels[str(word)]


def _share(value: Any, column: str, where: str) -> float:
    share = _number(float(value) if isinstance(value, bool) else value, column, where)
    if not 0 <= share <= 1:
        raise TrainerError("not a number from 0 to 1", where=where, found=f"{column} = {value!r}", expected="0 to 1")
    return share


def _number(value: Any, column: str, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number) or isinstance(value, bool):
        raise TrainerError("not a number", where=where, found=f"{column} = {value!r}", expected="a finite number")
    return number


_Rows = Iterator[tuple[int, dict[str, Any] | TrainerError]]
"""Each row, or its error, with its line number."""


def splits_in(path: Path, column: str) -> dict[str, str]:
    """The splits in a column of a table, train first, and the first name of each.

    Raises:
        TrainerError: the column is missing, or a value is not the name of a split.
    """
    columns, rows = read_rows(path)
    check_columns(columns, [column], path)
    found: dict[str, str] = {}
    for number, row in rows:
        if isinstance(row, TrainerError):
            continue  # an unusable item of train
        value = str(row.get(column, ""))
        split = split_named(value)
        if split is None:
            raise TrainerError(
                "a value in the split column is not a split",
                where=f"{path}:{number}",
                found=f"{column} = {value!r}",
                expected="train, val or test",
                hint="Map the values with `data.reader.splits={train: WORD, valid: WORD}`.",
            )
        found.setdefault(split, value)
    return {split: found[split] for split in in_order(found)}


def _is_of(row: Mapping[str, Any] | TrainerError, column: str, value: str | None) -> bool:
    """Whether a row belongs to a split; an unreadable row belongs to train."""
    split = split_named(value or "")
    if isinstance(row, TrainerError):
        return split == TRAIN
    word = str(row.get(column, ""))
    return word == value or (split is not None and split_named(word) == split)


def read_rows(path: Path) -> tuple[Sequence[str], _Rows]:
    """The names of the columns, and the rows."""
    return (_json_rows if path.suffix in _JSON_LINES else _csv_rows)(path)


def _csv_rows(path: Path) -> tuple[Sequence[str], _Rows]:
    """The names of the columns, and the rows."""
    reader = csv.reader(io.StringIO(read_text(path)), delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
    columns = next(reader, [])

    def rows() -> _Rows:
        try:
            for row in reader:
                if row:
                    yield reader.line_num, _named(row, columns, f"{path}:{reader.line_num}")
        except csv.Error as error:
            raise TrainerError("the file is not CSV", where=f"{path}:{reader.line_num}", found=error) from None

    return columns, rows()


def _named(row: Sequence[str], columns: Sequence[str], where: str) -> dict[str, Any] | TrainerError:
    if len(row) == len(columns):
        return dict(zip(columns, row, strict=True))
    return TrainerError(
        "the number of fields of a row doesn't match the columns",
        where=where,
        found=f"{len(row)}: {', '.join(row)[:80]}",
        expected=len(columns),
    )


def _json_rows(path: Path) -> tuple[Sequence[str], _Rows]:
    """The names of the first row's fields, and the rows."""
    rows = list(_decoded_lines(path))
    first = next((row for _, row in rows if isinstance(row, dict)), {})
    return list(first), iter(rows)


def _decoded_lines(path: Path) -> _Rows:
    import msgspec

    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            try:
                yield number, decode(line)
            except msgspec.DecodeError as error:
                found = f"{error}: {line[:80]}"
                yield number, TrainerError("a line is not a JSON object", where=f"{path}:{number}", found=found)


def check_columns(columns: Sequence[str], required: Sequence[str], path: Path) -> None:
    missing = [name for name in required if name not in columns]
    if missing:
        raise TrainerError(
            "the table has no such column",
            where=str(path),
            found=", ".join(columns) or "no columns",
            expected=missing[0],
        )
    if not required:
        raise TrainerError("no column is used", where=str(path), found=", ".join(columns) or "no columns")


def _as_number_first(text: str) -> tuple[int, float, str]:
    """Sorts numbers by value and before everything else."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text

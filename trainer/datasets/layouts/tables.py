"""Tables: a CSV of labels with images, or of numbers."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from trainer import TrainerError
from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, join, stem_of, suffix_of
from trainer.datasets.readers.table import splits_in
from trainer.datasets.split_words import TRAIN, in_order, split_named, split_within

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
_LABELS = ("label", "class", "category", "target", "labels", "y")
_SPLIT_COLUMNS = ("split", "set", "subset", "fold")
_DELIMITED = (".csv", ".tsv")
_SAMPLE = 64


def labeled_images(listing: Listing) -> Layout | None:
    """One folder of images and a CSV with a column of their names and one of their labels.

    Raises:
        TrainerError: the column of the label is ambiguous.
    """
    if sum(bool(listing.images(folder)) for folder in listing.folders) != 1:
        return None
    found: dict[str, dict[str, Any]] = {}
    for file in listing.files("", ".csv", ".tsv"):
        rows = _rows(listing, file)
        column = _column_of_files(listing, rows)
        if column is None:
            continue
        images, name = column
        settings = {"image": name, "images": images or ".", "label": _label(listing, file, rows[0], name)}
        found[file] = settings | _split_column(rows)
    return _layout("images with a table of labels", listing, found) if found else None


def table(listing: Listing) -> Layout | None:
    """Tables alone, without images."""
    files = listing.files("", *TABLES)
    if listing.images_below("") or not files:
        return None
    divided = {file: _split_column(_rows(listing, file)) if suffix_of(file) in _DELIMITED else {} for file in files}
    return _layout("table", listing, divided)


def _layout(name: str, listing: Listing, files: dict[str, dict[str, Any]]) -> Layout:
    splits = {file: split_within(stem_of(file)) for file in files}
    if len(files) == 1:
        ((file, settings),) = files.items()
        if "split_column" in settings:
            return _divided(name, listing, file, settings)
        splits = {file: split or TRAIN for file, split in splits.items()}
    named = {split: file for file, split in splits.items() if split is not None}
    if len(named) < len(files):
        raise TrainerError(
            "several tables whose names don't contain their split",
            where=str(listing.root),
            found=", ".join(files),
            expected="one table per split, with train, val or test in its name",
            hint="Select one with `data.reader={name: table, file: FILE, …}`.",
        )
    parts = {}
    for split in in_order(named):
        file = named[split]
        items = _count(listing, file)
        parts[split] = Part({"name": "table", "file": file, **files[file]}, items)
    return Layout(name, parts, ", ".join(named.values()))


def _divided(name: str, listing: Listing, file: str, settings: dict[str, Any]) -> Layout:
    """One table with a column for the split of each row."""
    column = settings["split_column"]
    head, *rows = _rows(listing, file)
    counts = Counter(split_named(row[head.index(column)]) for row in rows if len(row) == len(head))
    counts[TRAIN] += sum(len(row) != len(head) for row in rows)
    parts = {
        split: Part({"name": "table", "file": file, **settings, "split_value": word}, counts[split])
        for split, word in splits_in(listing.root / file, column).items()
    }
    return Layout(name, parts, f"{file}, column {column}")


def _split_column(rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """The setting of the split column, if one column has a name from `_SPLIT_COLUMNS` and contains split names."""
    named = [name for name in (rows[0] if rows else ()) if name.lower().strip() in _SPLIT_COLUMNS]
    if len(named) != 1:
        return {}
    at = rows[0].index(named[0])
    values = {row[at] for row in rows[1:] if len(row) == len(rows[0])}
    return {"split_column": named[0]} if any(split_named(value) for value in values) else {}


def _count(listing: Listing, file: str) -> int:
    if suffix_of(file) in _DELIMITED:
        return len(_rows(listing, file)) - 1
    return sum(bool(line.strip()) for line in listing.read(file).splitlines())


def _rows(listing: Listing, file: str) -> list[list[str]]:
    delimiter = "\t" if file.lower().endswith(".tsv") else ","
    return [row for row in csv.reader(io.StringIO(listing.read(file)), delimiter=delimiter) if row]


def _column_of_files(listing: Listing, rows: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    """The folder of the images, and the column that contains their file names."""
    sample = rows[1 : 1 + _SAMPLE]
    for at, name in enumerate(rows[0] if rows else ()):
        for folder in listing.folders:
            if sample and any(at < len(row) and listing.has(join(folder, row[at])) for row in sample):
                return folder, name
    return None


def _label(listing: Listing, file: str, columns: Sequence[str], image: str) -> str:
    others = [name for name in columns if name != image and name.lower().strip() not in _SPLIT_COLUMNS]
    named = [name for name in others if name.lower().strip() in _LABELS]
    if len(chosen := named if len(named) == 1 else others) != 1:
        raise TrainerError(
            "the label column of the table is ambiguous",
            where=str(listing.root / file),
            found=", ".join(columns),
            expected="one column apart from images and splits, or a column named label",
            hint=f"Set it with `data.reader={{name: table, file: {file}, image: {image}, label: COLUMN}}`.",
        )
    return chosen[0]

"""Tables: a CSV of labels with its images, or of numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from trainer import TrainerError
from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, join, stem_of
from trainer.datasets.split_words import TRAIN, in_order, split_within

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
_LABELS = ("label", "class", "category", "target", "labels", "y")
_SPLIT_COLUMNS = ("split", "set", "subset", "fold")
_SAMPLE = 64


def labeled_images(listing: Listing) -> Layout | None:
    """One folder of images and a CSV with a column of their names and one of their labels.

    Raises:
        TrainerError: which column the label is can't be told, or there is a column of splits.
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
        found[file] = {"image": name, "images": images or ".", "label": _label(listing, file, rows[0], name)}
    return _layout("images with a table of labels", listing, found) if found else None


def table(listing: Listing) -> Layout | None:
    """Tables alone, without images."""
    files = listing.files("", *TABLES)
    if listing.images_below("") or not files:
        return None
    return _layout("table", listing, {file: {} for file in files})


def _layout(name: str, listing: Listing, files: dict[str, dict[str, Any]]) -> Layout:
    splits = {file: split_within(stem_of(file)) for file in files}
    if len(files) == 1:
        splits = {file: split or TRAIN for file, split in splits.items()}
    named = {split: file for file, split in splits.items() if split is not None}
    if len(named) < len(files):
        raise TrainerError(
            "several tables, and their names don't say which split each is",
            where=str(listing.root),
            found=", ".join(files),
            expected="one table a split, with train, val or test in its name",
            hint="`data.reader={name: table, file: FILE, …}` names one.",
        )
    parts = {}
    for split in in_order(named):
        file = named[split]
        items = _count(listing, file)
        parts[split] = Part({"name": "table", "file": file, **files[file]}, items)
    return Layout(name, parts, ", ".join(named.values()))


def _count(listing: Listing, file: str) -> int:
    if file.lower().endswith((".csv", ".tsv")):
        return len(_rows(listing, file)) - 1
    return sum(bool(line.strip()) for line in listing.read(file).splitlines())


def _rows(listing: Listing, file: str) -> list[list[str]]:
    delimiter = "\t" if file.lower().endswith(".tsv") else ","
    return [row for row in csv.reader(io.StringIO(listing.read(file)), delimiter=delimiter) if row]


def _column_of_files(listing: Listing, rows: Sequence[Sequence[str]]) -> tuple[str, str] | None:
    """The folder of the images, and the column whose values are the names of files in it."""
    sample = rows[1 : 1 + _SAMPLE]
    for at, name in enumerate(rows[0] if rows else ()):
        for folder in listing.folders:
            if sample and any(at < len(row) and listing.has(join(folder, row[at])) for row in sample):
                return folder, name
    return None


def _label(listing: Listing, file: str, columns: Sequence[str], image: str) -> str:
    others = [name for name in columns if name != image]
    named = [name for name in others if name.lower().strip() in _LABELS]
    splits = [name for name in others if name.lower().strip() in _SPLIT_COLUMNS]
    if splits or len(chosen := named if len(named) == 1 else others) != 1:
        raise TrainerError(
            "the table has a column of splits, which no reader divides by"
            if splits
            else "which column of the table is the label can't be told",
            where=str(listing.root / file),
            found=", ".join(columns),
            expected="a table for each split"
            if splits
            else "one column besides that of the images, or one called label",
            hint=f"`data.reader={{name: table, file: {file}, image: {image}, label: COLUMN}}` names it.",
        )
    return chosen[0]

"""The words for splits in names of files and folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

TRAIN, VALID, TEST = "train", "valid", "test"

SPLIT_WORDS: Mapping[str, Sequence[str]] = {
    TRAIN: ("train", "training"),
    VALID: ("val", "valid", "validation", "dev"),
    TEST: ("test", "testing"),
}
"""What folders and files of the splits are called."""

_SPLITS = {word: split for split, words in SPLIT_WORDS.items() for word in words}


def split_named(name: str) -> str | None:
    """The split whose word a folder is called by, whatever its case and with a year or without: Train, val2017."""
    return _SPLITS.get(name.lower().rstrip("0123456789_- "))


def split_within(name: str) -> str | None:
    """The split whose word is part of a name, as in instances_val2017; None for no word or those of two splits."""
    found = {_SPLITS[word] for word in re.findall(r"[a-z]+", name.lower()) if word in _SPLITS}
    return found.pop() if len(found) == 1 else None


def in_order(splits: Iterable[str]) -> list[str]:
    """Splits with train first, then valid, then test."""
    return [split for split in SPLIT_WORDS if split in set(splits)]

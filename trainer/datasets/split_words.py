"""The words for splits in names of files and folders."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

TRAIN, VALID, TEST = "train", "valid", "test"


def split_named(name: str) -> str | None:
    """The split whose word a folder is called by, whatever its case and with a year or without: Train, val2017."""
    return _splits().get(name.lower().rstrip("0123456789_- "))


def split_within(name: str) -> str | None:
    """The split whose word is part of a name, as in instances_val2017; None for no word or those of two splits."""
    splits = _splits()
    found = {splits[word] for word in re.findall(r"[a-z]+", name.lower()) if word in splits}
    return found.pop() if len(found) == 1 else None


def in_order(splits: Iterable[str]) -> list[str]:
    """Splits with train first, then valid, then test."""
    return [split for split in (TRAIN, VALID, TEST) if split in set(splits)]


@functools.cache
def _splits() -> Mapping[str, str]:
    from trainer.configs.readers.splits import SPLIT_WORDS  # workers, which detect nothing, import no configuration

    return {word: split for split, words in SPLIT_WORDS.items() for word in words}

"""The names of splits in files and folders."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

TRAIN, VALID, TEST = "train", "valid", "test"


def split_named(name: str) -> str | None:
    """The split that a folder is named after, in any case and with or without a year: Train, val2017."""
    return _splits().get(name.lower().rstrip("0123456789_- "))


def split_within(name: str) -> str | None:
    """The split whose name occurs in `name`, as in instances_val2017; None for no split or several."""
    splits = _splits()
    found = {splits[word] for word in re.findall(r"[a-z]+", name.lower()) if word in splits}
    return found.pop() if len(found) == 1 else None


def in_order(splits: Iterable[str]) -> list[str]:
    """Splits with train first, then valid, then test."""
    return [split for split in (TRAIN, VALID, TEST) if split in set(splits)]


@functools.cache
def _splits() -> Mapping[str, str]:
    from trainer.configs.readers.splits import (
        SPLIT_WORDS,
    )  # worker processes, which detect nothing, don't import configurations

    return {word: split for split, words in SPLIT_WORDS.items() for word in words}

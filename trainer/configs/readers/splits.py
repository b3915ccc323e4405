"""Finds the splits of a reader from the names in its paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trainer import TrainerError
from trainer.configs.readers.reading import Reading

TRAIN, VALID, TEST = "train", "valid", "test"

SPLIT_WORDS: Mapping[str, Sequence[str]] = {
    TRAIN: ("train", "training"),
    VALID: ("val", "valid", "validation", "dev"),
    TEST: ("test", "testing"),
}
"""Names of folders and files of each split."""

SPLIT = "{split}"


def split_words(config: Reading, root: Path) -> dict[str, str | None]:
    """The splits that are read, and the name of each in paths; None if the paths don't depend on the split.

    Raises:
        TrainerError: `splits` is set but no path has `{split}`, or no split exists.
    """
    if config.is_own:
        return dict(config.splits) if config.splits else {TRAIN: None}
    paths = [value for value in config.settings().values() if isinstance(value, str) and SPLIT in value]
    if not paths:
        if config.splits is not None:
            raise TrainerError(
                "the reader's paths are the same for every split",
                where="data.reader.splits",
                found=", ".join(f"{split}: {word}" for split, word in config.splits.items()),
                expected=f"a path with {SPLIT} in it",
            )
        return {TRAIN: None}
    if config.splits is not None:
        return dict(config.splits)
    found: dict[str, str | None] = {}
    for split, words in SPLIT_WORDS.items():
        present = [word for word in words if all((root / path.replace(SPLIT, word)).exists() for path in paths)]
        if present:
            found[split] = present[0]
    if not found:
        tried = ", ".join(word for words in SPLIT_WORDS.values() for word in words)
        raise TrainerError(
            "no split found",
            where=str(root),
            found=f"nothing at {', '.join(paths)} for any of {tried}",
            hint="Name the folders or files in `data.reader.splits`, as in {train: 2007_train, valid: 2007_val}. For "
            "data without splits, write paths without {split} (`images: .`) and take splits from train (`fractions: "
            "{valid: 0.1}`).",
        )
    return found

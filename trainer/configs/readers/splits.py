"""Which splits a reader's section gives: by the words that are there in its paths."""

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
"""What folders and files of the splits are called."""

SPLIT = "{split}"


def split_words(config: Reading, root: Path) -> dict[str, str | None]:
    """The splits that are read, and what each is called in paths; None where the paths don't tell splits apart.

    Raises:
        TrainerError: `splits` is set and no path has `{split}`, or no split is there.
    """
    if config.is_own:
        return dict(config.splits) if config.splits else {TRAIN: None}
    paths = [value for value in config.settings().values() if isinstance(value, str) and SPLIT in value]
    if not paths:
        if config.splits is not None:
            raise TrainerError(
                "no path of the reader tells the splits apart",
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
            "no split is there",
            where=str(root),
            found=f"nothing at {', '.join(paths)} for any of {tried}",
            hint="`data.reader.splits` names the words, as in {train: 2007_train, valid: 2007_val}. Data without "
            "splits has paths without {split} (`images: .`) and takes them from train (`fractions: {valid: 0.1}`).",
        )
    return found

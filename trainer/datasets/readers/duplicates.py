"""Detects the same image in two splits: the same path is an error, two files with identical contents a warning."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from trainer import TrainerError
from trainer.datasets.dataset import Dataset
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.picture_reader import PictureReader


def refuse_duplicates(splits: Mapping[str, Dataset], opening: Opening) -> None:
    """Compares the files of the splits; reads only files whose size occurs in two splits.

    Raises:
        TrainerError: one file is an item of two splits. Identical files go to `opening.on_warning`.
    """
    owners: dict[str, str] = {}
    for split, dataset in splits.items():
        if not isinstance(dataset, PictureReader):
            continue
        for index in range(len(dataset)):
            path = os.path.normpath(dataset.image_path(index))
            if owners.setdefault(path, split) != split:
                raise TrainerError(
                    "one image is in two splits",
                    where=path,
                    found=f"{owners[path]} and {split}",
                    expected="every image in one split: metrics of images used for training are meaningless",
                    hint="Take a validation split from train with `data.reader.fractions={valid: 0.1}`.",
                )
    pairs = same_content(owners) if len(set(owners.values())) > 1 else []
    if pairs:
        first, second = pairs[0]
        opening.on_warning(
            f"{len(pairs)} files are identical in two splits, for instance {first} ({owners[first]}) and {second} "
            f"({owners[second]}): metrics of images used for training are meaningless"
        )


def same_content(owners: Mapping[str, str], *, within: bool = False) -> list[tuple[str, str]]:
    """Pairs of files of different splits (`within`: of the same split, too) with identical contents.

    Only files of the same size are read. `owners` contains the split of each file.
    """
    by_size: dict[int, list[str]] = {}
    for path in owners:
        try:
            by_size.setdefault(os.stat(path).st_size, []).append(path)
        except OSError:
            continue  # a missing or unreadable file is reported when the item is read
    found: list[tuple[str, str]] = []
    first: dict[bytes, str] = {}
    for paths in by_size.values():
        for path in paths if len(paths if within else {owners[path] for path in paths}) > 1 else ():
            try:
                digest = hashlib.sha256(Path(path).read_bytes()).digest()
            except OSError:
                continue
            other = first.setdefault(digest, path)
            if other != path and (within or owners[other] != owners[path]):
                found.append((other, path))
    return found

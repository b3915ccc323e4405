"""Lists the files of a folder in a machine-independent order, and reads texts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from trainer import TrainerError
from trainer.datasets.images import SUFFIXES
from trainer.datasets.paths import folder, is_hidden, missing_file, natural
from trainer.datasets.readers.opening import Opening, Progress
from trainer.datasets.split_words import split_named

FILES_BETWEEN = 10_000


def files_in(
    path: Path, suffixes: Collection[str] = SUFFIXES, *, below: bool = False, progress: Progress | None = None
) -> list[str]:
    """Names of the files with these suffixes in a folder (and its subfolders) in natural order, without hidden files.

    `progress` is called for every 10,000 files.

    Raises:
        TrainerError: the folder is missing, or has no such file.
    """
    names = []
    for name in _walk(folder(path), "", suffixes, below):
        names.append(name)
        if progress is not None and len(names) % FILES_BETWEEN == 0:
            progress(len(names), 0)
    if not names:
        present = sorted({Path(entry.name).suffix or entry.name for entry in path.iterdir()})
        raise TrainerError(
            "no files of this kind in the folder",
            where=str(path),
            found=", ".join(present[:8]) or "nothing",
            expected=", ".join(sorted(suffixes)),
        )
    return sorted(names, key=natural)


def folders_in(path: Path) -> list[str]:
    """Names of the subfolders of a folder, sorted, without hidden ones."""
    return sorted(entry.name for entry in os.scandir(folder(path)) if entry.is_dir() and not is_hidden(entry.name))


def refuse_splits(names: Collection[str], path: Path) -> None:
    """Raises `TrainerError` if the files of one data set are in the folders of several splits."""
    folders = sorted({name.partition("/")[0] for name in names if "/" in name})
    if len({split_named(name) for name in folders} - {None}) > 1:
        raise TrainerError(
            "the folder contains several splits, which would be read as one",
            where=str(path),
            found=", ".join(folders[:8]),
            expected="the folder of one split",
            hint=f"Write `{path.name}/{{split}}` to read each split, or remove `data.reader` to detect the layout.",
        )


def without_repeats(names: Iterable[str], path: Path, opening: Opening) -> list[str]:
    """The names in a list, each once; duplicates go to `opening.on_problem`."""
    counts = Counter(names)
    for name, count in counts.items():
        if count > 1:
            found = f"{name}, {count} times"
            opening.on_problem(TrainerError("a list contains an image more than once", where=str(path), found=found))
    return list(counts)


def by_stem(names: Collection[str], path: Path) -> dict[str, str]:
    """File names without suffix, mapped to the names. Raises `TrainerError` for duplicates."""
    found: dict[str, str] = {}
    for name in names:
        stem = name.rpartition(".")[0] or name
        if stem in found:
            raise TrainerError(
                "two files have the same name except for the extension",
                where=str(path),
                found=f"{found[stem]} and {name}",
            )
        found[stem] = name
    return found


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with normalized line breaks. Raises `TrainerError` if it is missing or not text."""
    content = b""
    try:
        content = path.read_bytes()
        text = content.decode().removeprefix("\ufeff")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    except FileNotFoundError:
        raise missing_file(path) from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TrainerError(
            "the file is not UTF-8 text",
            where=str(path),
            found=f"byte 0x{content[error.start]:02x} at offset {error.start}, line {line}",
            expected="UTF-8",
            hint="Convert it, with iconv -f LATIN1 -t UTF-8 for instance.",
        ) from None
    except OSError as error:
        raise TrainerError("the file can't be read", where=str(path), found=error.strerror) from error


def _walk(path: Path, prefix: str, suffixes: Collection[str], below: bool) -> Iterator[str]:
    for entry in os.scandir(path):
        if is_hidden(entry.name):
            continue
        if below and entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/", suffixes, below)
        elif os.path.splitext(entry.name)[1].lower() in suffixes:
            yield prefix + entry.name

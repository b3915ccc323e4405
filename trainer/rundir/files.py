"""Atomic replacement of files, also if the process is killed, and the error for a file that can't be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer import TrainerError

_HINTS = {
    errno.ENOSPC: "The disk is full: free some space, or put the run elsewhere with --run-dir.",
    errno.EDQUOT: "The disk quota is used up: free some space, or put the run elsewhere with --run-dir.",
    errno.EFBIG: "The file reached the maximum size on this system (see `ulimit -f`).",
    errno.EIO: "The disk fails: see the system's log (dmesg), and put the run elsewhere with --run-dir.",
    errno.ENOENT: "Its folder no longer exists: was it deleted or moved?",
    errno.EROFS: "The file system is read-only: put the run elsewhere with --run-dir.",
    errno.EACCES: "No permission to write there: put the run elsewhere with --run-dir.",
}


def write_error(path: str | os.PathLike[str], error: OSError) -> TrainerError:
    """The error message for a file of a run that can't be written."""
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return TrainerError(f"can't write: {reason}", where=os.fspath(path), hint=_HINTS.get(error.errno or 0))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the name of a file to write next to `path`, which replaces `path` when the `with` block ends.

    After an error, the file at `path` is unchanged.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Replaces a text file atomically.

    Raises:
        TrainerError: it can't be written.
    """
    try:
        with replacing(path) as aside:
            aside.write_text(text, encoding="utf-8")
    except OSError as error:
        raise write_error(path, error) from error

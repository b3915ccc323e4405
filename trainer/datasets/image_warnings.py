"""Reports each warning of the image library once per file, with the name of the file."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainer.rundir import complain

_LIBRARY = r"PIL\."


class _Reading(threading.local):
    path: Path | None = None


_reading = _Reading()
_reported: set[tuple[Path, str]] = set()
_is_installed = False


@contextmanager
def warnings_name(path: Path) -> Iterator[None]:
    """While active, reports warnings of this thread with the file `path`; other warnings are unaffected.

    `warnings.catch_warnings` does not support several threads at once.
    """
    _install()
    outer, _reading.path = _reading.path, path
    try:
        yield
    finally:
        _reading.path = outer


def _install() -> None:
    """Replaces `warnings.showwarning`, once per process."""
    global _is_installed
    if _is_installed:
        return
    _is_installed = True
    warnings.filterwarnings("always", module=_LIBRARY, append=True)  # by default, Python shows equal texts only once
    elsewhere = warnings.showwarning

    def show(message: Warning | str, *place: Any, **options: Any) -> None:
        if _reading.path is None:
            elsewhere(message, *place, **options)
        elif (entry := (_reading.path, str(message))) not in _reported:
            _reported.add(entry)
            complain(f"{_reading.path}: {message}")

    warnings.showwarning = show

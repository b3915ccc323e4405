"""Callbacks of a reader while it opens a data set: for progress, and for unusable records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainer import TrainerError
from trainer.rundir import complain

Progress = Callable[[int, int], None]
"""Receives (done, total) with total 0 for unknown, often enough for display; its exceptions end the reading."""


def _raise(error: TrainerError) -> None:
    raise error


@dataclass(frozen=True, slots=True)
class Opening:
    """`on_problem` receives the error of a record that belongs to no item; it raises or counts it.

    `on_warning` receives text about a possible problem; by default it goes to stderr.
    """

    progress: Progress | None = None
    on_problem: Callable[[TrainerError], None] = _raise
    on_warning: Callable[[str], None] = complain

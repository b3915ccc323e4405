"""What a reader is handed when it opens a data set: who hears of progress, and of records that can't be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainer import TrainerError
from trainer.rundir import complain

Progress = Callable[[int, int], None]
"""Hears how much of how much (0: not known) is done, often enough to be shown; what it raises ends the reading."""


def _raise(error: TrainerError) -> None:
    raise error


@dataclass(frozen=True, slots=True)
class Opening:
    """`on_problem` is handed what is wrong with a record that belongs to no item: it raises it, or counts it.

    `on_warning` is handed a finding that may be intended, as text; by default it is written to stderr.
    """

    progress: Progress | None = None
    on_problem: Callable[[TrainerError], None] = _raise
    on_warning: Callable[[str], None] = complain

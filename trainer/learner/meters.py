"""A meter: what is measured of one kind of step, from its tally and the processes that fold its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer.engine import State
from trainer.learner.late import Read
from trainer.learner.tally import Handed, Tally
from trainer.metrics import Report
from trainer.metrics.folding import Answer, Folder
from trainer.metrics.metric import report_names, value_names


class Meter:
    """Reads what a tally has counted, hands its rows on, and keeps both in checkpoints.

    Args:
        tally: the traced half.
        folders: the processes that fold, by where metrics say they fold; shared by the meters of a training.
    """

    def __init__(self, tally: Tally, folders: Mapping[str, Folder]) -> None:
        self.tally, self._folders = tally, folders
        self._opened: dict[str, list[str]] = {}
        self._kept: dict[str, dict[str, np.ndarray]] = {}

    def hand_over(self, handed: Handed, at: Any = None) -> None:
        """Read the rows of a step, all at once, and send them to be folded; `at` names the batch in errors.

        Raises:
            Exception: what a metric has raised by now.
        """
        if not handed:
            return
        if not self._opened:
            self._open()
        for place, rows in handed.items():
            form = self.tally.forms[int(rows["form"])]
            sources = {name: tensor.read_into for name, tensor in rows.items() if name != "form"}
            self._folders[place].put(self.tally.name, form, sources, at)

    def take(self, read: Read = State.numpy) -> Taken:
        """The values so far; a new period of what is folded begins, `tally.reset` begins one of sums."""
        numbers, reports = self._summed(read)
        asked = {place: self._folders[place].values(self.tally.name) for place in self._opened}
        self._reset_folders()
        return Taken(numbers, reports, asked)

    def values(self) -> dict[str, float]:
        """Each metric's value so far, without those folded aside."""
        numbers, _ = self._summed(State.numpy)
        for place in self._opened:
            if place != "aside":
                numbers.update(self._folders[place].values(self.tally.name).result()[0])
        return numbers

    def reset(self) -> None:
        """Begin anew."""
        self.tally.reset()
        self._reset_folders()

    def _reset_folders(self) -> None:
        for place in self._opened:
            self._folders[place].reset(self.tally.name)
        self._kept = {}

    def folded(self) -> dict[str, np.ndarray]:
        """The states that processes hold, by "slot/part", for a checkpoint. Waits until all is folded."""
        states = dict(self._kept)
        for place in self._opened:
            states.update(self._folders[place].states(self.tally.name).result())
        return {f"{slot}/{part}": values for slot, state in states.items() for part, values in state.items()}

    def keep(self, folded: Mapping[str, np.ndarray]) -> None:
        """Go on from what `folded` gave."""
        kept: dict[str, dict[str, np.ndarray]] = {}
        for name, values in folded.items():
            slot, _, part = name.rpartition("/")
            kept.setdefault(slot, {})[part] = values
        self._kept = kept
        for place in self._opened:
            self._restore(place)

    def _open(self) -> None:
        for place, slots in self.tally.slots.items():
            self._folders[place].open(self.tally.name, slots)
            self._opened[place] = list(slots)
            self._restore(place)

    def _restore(self, place: str) -> None:
        kept = {slot: self._kept.pop(slot) for slot in self._opened[place] if slot in self._kept}
        self._folders[place].restore(self.tally.name, kept)

    def _summed(self, read: Read) -> tuple[dict[str, float], dict[str, Report]]:
        numbers: dict[str, float] = {}
        reports: dict[str, Report] = {}
        for slot, state in self.tally.states(read).items():
            for name, metric in self.tally.metrics[slot].items():
                numbers.update(value_names(name, metric.values(state)))
                reports.update(report_names(name, metric.reports(state)))
        return numbers, reports


class Taken:
    """The values of a period: those that are there, and those that are still being worked out."""

    def __init__(self, numbers: dict[str, float], reports: dict[str, Report], asked: dict[str, Answer]) -> None:
        self.numbers, self.reports, self._asked = numbers, reports, asked

    def wait(self, *, aside: bool) -> None:
        """Wait for the values that processes work out, those aside only if asked to.

        Raises:
            Exception: what a metric has raised.
        """
        for place in [place for place in self._asked if aside or place != "aside"]:
            self._add(self._asked.pop(place))

    @property
    def is_whole(self) -> bool:
        """Whether all values are there; takes in those that have come."""
        for place in [place for place, answer in self._asked.items() if answer.is_there]:
            self._add(self._asked.pop(place))
        return not self._asked

    def _add(self, answer: Answer) -> None:
        numbers, reports = answer.result()
        self.numbers.update(numbers)
        self.reports.update(reports)

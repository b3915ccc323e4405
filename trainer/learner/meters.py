"""A meter: the measurements of one kind of step, from its tally and the processes that fold its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer.engine import State
from trainer.learner.deferred_actions import Read
from trainer.learner.tally import Handed, Tally
from trainer.metrics import Report
from trainer.metrics.folding import Answer, FoldingProcess
from trainer.metrics.metric import report_names, value_names


class Meter:
    """Reads the sums of a tally, passes its rows on, and saves both in checkpoints.

    Args:
        tally: the traced part.
        folders: the processes that fold, by the metrics' place of folding; shared by the meters of a training.
    """

    def __init__(self, tally: Tally, folders: Mapping[str, FoldingProcess]) -> None:
        self.tally, self._folders = tally, folders
        self._opened: dict[str, list[str]] = {}
        self._kept: dict[str, dict[str, np.ndarray]] = {}

    def hand_over(self, handed: Sequence[Handed], at: tuple[Any, ...], rows: int) -> None:
        """Reads all rows of a step, `rows` per shard, and sends them to be folded; `at` names the batch in
        errors.

        Raises:
            Exception: an exception of a metric.
        """
        for shard, own in enumerate(handed):
            self._hand_over(own, (*at, shard * rows))

    def _hand_over(self, handed: Handed, at: Any) -> None:
        if not handed:
            return
        if not self._opened:
            self._open()
        for place, rows in handed.items():
            form = self.tally.forms[int(rows["form"])]
            sources = {name: tensor.read_into for name, tensor in rows.items() if name != "form"}
            self._folders[place].put(self.tally.name, form, sources, at)

    def take(self, read: Read = State.numpy) -> Taken:
        """The values so far. Starts a new period of folded metrics; `tally.reset` does so for sums."""
        numbers, reports = self._summed(read)
        asked = {place: self._folders[place].values(self.tally.name) for place in self._opened}
        self._reset_folders()
        return Taken(numbers, reports, asked)

    def values(self) -> dict[str, float]:
        """The value of each metric so far, without those folded in the process "aside"."""
        numbers, _ = self._summed(State.numpy)
        for place in self._opened:
            if place != "aside":
                numbers.update(self._folders[place].values(self.tally.name).result()[0])
        return numbers

    def reset(self) -> None:
        """Starts a new period."""
        self.tally.reset()
        self._reset_folders()

    def _reset_folders(self) -> None:
        for place in self._opened:
            self._folders[place].reset(self.tally.name)
        self._kept = {}

    def folded(self) -> dict[str, np.ndarray]:
        """The states held by processes, by "slot/part", for a checkpoint. Waits until everything is folded."""
        states = dict(self._kept)
        for place in self._opened:
            states.update(self._folders[place].states(self.tally.name).result())
        return {f"{slot}/{part}": values for slot, state in states.items() for part, values in state.items()}

    def keep(self, folded: Mapping[str, np.ndarray]) -> None:
        """Restores the result of `folded`."""
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
    """The values of a period: available ones, and those still being computed."""

    def __init__(self, numbers: dict[str, float], reports: dict[str, Report], asked: dict[str, Answer]) -> None:
        self.numbers, self.reports, self._asked = numbers, reports, asked

    def wait(self, *, aside: bool) -> None:
        """Waits for values that processes compute; for those of the process "aside" only if `aside`.

        Raises:
            Exception: an exception of a metric.
        """
        for place in [place for place in self._asked if aside or place != "aside"]:
            self._add(self._asked.pop(place))

    @property
    def is_whole(self) -> bool:
        """Whether all values are available; first collects new ones."""
        for place in [place for place, answer in self._asked.items() if answer.is_there]:
            self._add(self._asked.pop(place))
        return not self._asked

    def _add(self, answer: Answer) -> None:
        numbers, reports = answer.result()
        self.numbers.update(numbers)
        self.reports.update(reports)

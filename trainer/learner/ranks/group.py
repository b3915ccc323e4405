"""The group of ranks that train together, as seen by one of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer import TrainerError
from trainer.learner.failures import TrainingFailure
from trainer.learner.ranks.pace import Pace
from trainer.learner.ranks.tree import IsDone, Steps, Sum, gather_steps_of, steps_of

if TYPE_CHECKING:
    from trainer.engine.graph.storage import Storage
    from trainer.learner.ranks.heartbeats import Heartbeats

LONGEST_SEARCH_SECONDS, CHECK_SECONDS = 8.0, 0.25
"""Seconds for which all heartbeats are checked to find a rank that could not be reached, and seconds between two
checks.
"""

_RESUME = "Resume the run, with fewer or more processes, from its checkpoint."
_OBJECT, _ANSWER, _FIRST_SUM, _SUMS = 1, 2, 3, 1 << 14
"""Message tags: for objects, for answers, and for sums; concurrent sums have different tags (MPI guarantees 32,767
tags).
"""

_SAME = "Start all of them with the same files, packages and command."


class _Question:
    """A message that rank 0 sends in place of a value: it first needs the values that `Group.answer` returns."""


class RankLost(TrainingFailure):
    """Another rank died, hangs or failed; `sentence` says which and why."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, hint=_RESUME)


class Group:
    """One process of several, connected by mpi4py's communicator; without a communicator, a single process.

    A rank that waits for others yields its core to other threads, and stops if a heartbeat says that a rank is lost.

    Attributes:
        rank: the number of this process. size: the number of processes.
        heartbeats: the heartbeats of the ranks, once there is a run directory.
        pace: the activity of this process, for its heartbeat.
        answer: returns the values that rank 0 requests; see `ask`.
        waited: seconds spent waiting for others.
    """

    def __init__(self, communicator: Any = None) -> None:
        self._communicator = communicator
        self.rank = 0 if communicator is None else communicator.Get_rank()
        self.size = 1 if communicator is None else communicator.Get_size()
        self.heartbeats: Heartbeats | None = None
        self.pace = Pace()
        self.answer: Callable[[], Iterable[Any]] = tuple
        self.waited = 0.0
        self._sums: list[Sum] = []
        self._begun = 0

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes the run directory and decides."""
        return self.rank == 0

    # Sums

    def add_up(self, arrays: Sequence[np.ndarray]) -> None:
        """Replaces flat arrays by their sums over all ranks, along one balanced tree. See `tree`."""
        self._finish(self._started(steps_of(self, arrays, self._next_tag())))

    def gather(self, arrays: Sequence[np.ndarray], owners: Sequence[int]) -> None:
        """Replaces each flat array by that of its owner, a rank."""
        self._finish(self._started(gather_steps_of(self, arrays, owners, self._next_tag())))

    def begin(self, totals: Sequence[Storage]) -> Callable[[], None]:
        """Starts `add_up` of values in this process's memory; returns a function that waits for the end.

        All ranks begin the same sums in the same order. A sum advances while this rank begins or waits for another.
        """
        added = self._started(steps_of(self, [total.flat() for total in totals], self._next_tag()))
        return lambda: self._finish(added)

    def _next_tag(self) -> int:
        self._begun += 1
        return _FIRST_SUM + self._begun % _SUMS

    def _started(self, steps: Steps) -> Sum:
        added = Sum(steps)
        self._sums.append(added)
        self._advance()
        return added

    def exchange(self, partner: int, given: np.ndarray, taken: np.ndarray, tag: int) -> IsDone:
        """Starts to send `given` to a rank and to receive its array of the same dtype into `taken`."""
        receiving = self._communicator.Irecv(_bytes(taken), source=partner, tag=tag)
        sending = self._communicator.Isend(_bytes(given), dest=partner, tag=tag)
        return lambda: receiving.Test() and sending.Test()

    def _advance(self) -> None:
        self._sums = [added for added in self._sums if not added.advance()]

    def _finish(self, added: Sum) -> None:
        def is_done() -> bool:
            self._advance()
            return added.is_done

        self.wait(is_done)

    # Messages

    def joined(self, values: Sequence[Any]) -> list[Any]:
        """Returns the values of all ranks, concatenated, on rank 0; an empty list on others."""
        return list(values) if self.size == 1 else [value for own in self.to_first(values) for value in own]

    def from_first(self, value: Any = None) -> Any:
        """Returns the `value` of rank 0 on all ranks; that of other ranks is ignored."""
        if self.size == 1:
            return value
        if self.is_first:
            self._send(value, range(1, self.size))
            return value
        while isinstance(value := self._receive(0), _Question):
            for part in self.answer():
                self._send([part], [0], _ANSWER)
            self._send([], [0], _ANSWER)
        return value

    def ask(self) -> Iterator[Any]:
        """Yields, on rank 0, the answers of all other ranks, which send them when they next wait in `from_first`."""
        self._send(_Question(), range(1, self.size))
        for rank in range(1, self.size):
            while part := self._receive(rank, _ANSWER):
                yield part[0]

    def to_first(self, value: Any) -> list[Any]:
        """Returns the values of all ranks, by rank, on rank 0; an empty list on others."""
        if self.is_first:
            return [value, *(self._receive(rank) for rank in range(1, self.size))]
        self._send(value, [0])
        return []

    def to_all(self, value: Any) -> list[Any]:
        """Returns the values of all ranks, by rank, on all ranks."""
        return self.from_first(self.to_first(value))

    def require_same(self, facts: Mapping[str, Any], hint: str = _SAME) -> None:
        """Raises an error on all ranks if a fact is not the same on all of them.

        Raises:
            TrainerError: the ranks disagree; names the fact and the first rank that differs.
        """
        found = self.to_all(dict(facts))
        for name, value in found[0].items():
            for rank, other in enumerate(found):
                if other.get(name) != value:
                    raise TrainerError(
                        f"the processes of this training disagree about {name}",
                        found=f"{other.get(name)} in rank {rank}",
                        expected=f"{value}, as in rank 0",
                        hint=hint,
                    )

    def _send(self, value: Any, ranks: Sequence[int], tag: int = _OBJECT) -> None:
        sending = [self._communicator.isend(value, dest=rank, tag=tag) for rank in ranks]
        self.wait(lambda: all(request.test()[0] for request in sending))

    def _receive(self, rank: int, tag: int = _OBJECT) -> Any:
        found: list[Any] = []

        def is_there() -> bool:
            message = self._communicator.improbe(source=rank, tag=tag)
            if message is not None:
                found.append(message.recv())
            return bool(found)

        self.wait(is_there)
        return found[0]

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Waits until `is_done` returns true.

        Raises:
            RankLost: another rank died, hangs or failed.
        """
        started = now = time.perf_counter()
        is_ready = self._is_done(is_done)
        with self.pace.wait():
            while not is_ready:
                os.sched_yield()  # ranks may share cores: a spinning rank would block the other
                now = time.perf_counter()
                self._require_all()
                is_ready = self._is_done(is_done)
        self.waited += now - started

    def _is_done(self, is_done: Callable[[], bool]) -> bool:
        try:
            return is_done()
        except RuntimeError as error:  # from MPI or NCCL, the first to notice that a process died
            for _ in range(round(LONGEST_SEARCH_SECONDS / CHECK_SECONDS)):
                if self.heartbeats is not None:
                    self.heartbeats.look(at_all=True)
                self._require_all()
                time.sleep(CHECK_SECONDS)
            raise RankLost(f"another process can't be reached: {error}") from error

    def _require_all(self) -> None:
        """Raises an error if the heartbeat of a rank says that it is lost."""
        if self.heartbeats is not None and self.heartbeats.lost is not None:
            raise RankLost(self.heartbeats.lost)


ALONE = Group()
"""The group of a process that trains alone."""


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8)

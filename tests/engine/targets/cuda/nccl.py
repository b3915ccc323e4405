"""NCCL of several ranks in one process, each with a recording driver of its own.

Ranks run in lock-step: each gives its work to its streams, and what is given is executed when a host waits. A group of
sends and receives is one piece of work of a stream, as it is one kernel of NCCL. It begins after the work before it,
and ends once each of its receives has the data of the matching send, the nth from a rank with the nth to it.

- A wait that can't end is a `Deadlock`: for a group that the other rank has not given, or that comes after one that
  waits for this rank.
- A receive of another size than its send, calls outside of groups, two streams, and what `settled` finds to be left
  over are a `Mismatch`.
- The recording driver finds sends of what is not there yet, and work that uses what has not arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.engine.targets.cuda.recorder import Recorder, Tenancy
from trainer.engine.targets.cuda.device import CudaDevice


class Mismatch(AssertionError):
    """Sends and receives of ranks that don't fit."""


class Deadlock(AssertionError):
    """Ranks that wait for each other, or for what no rank will do."""


class NcclError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"NCCL_ERROR_{status}: an error of the test")


@dataclass(eq=False)
class Message:
    """One end of a message: bytes of a rank's memory from `start`."""

    group: Group
    place: Tenancy
    start: int
    nbytes: int
    data: np.ndarray | None = None

    def part(self, array: np.ndarray) -> np.ndarray:
        return array[self.start : self.start + self.nbytes]


@dataclass(eq=False)
class Group:
    """Sends and receives of a rank that are one piece of work, number `number` of its stream; of each its partner."""

    rank: int
    sends: list[tuple[int, Message]] = field(default_factory=list)
    receives: list[tuple[int, int, Message]] = field(default_factory=list)
    stream: int = 0
    number: int = 0


class World:
    """`size` ranks. `groups` counts those that are over, `aborted` communicators that were aborted; `failing` is the
    status that calls fail with.
    """

    def __init__(self, size: int, **settings: Any) -> None:
        self.recorders = [Recorder(gpus=size, **settings) for _ in range(size)]
        self.groups = self.failing = self.aborted = 0
        self.facts: list[Mapping[str, Any]] = []
        self.shared: Any = None
        self._sent: dict[tuple[int, int], list[Message]] = {}
        self._received: dict[tuple[int, int], list[Message]] = {}
        self._running: dict[int, Group] = {}
        for rank, recorder in enumerate(self.recorders):
            recorder.nccl = Nccl(self, rank)

    def device(self, rank: int) -> CudaDevice:
        """A device of this rank. Those of lower ranks exist."""
        return CudaDevice(rank, self.recorders[rank])

    def send(self, group: Group, partner: int, message: Message) -> None:
        self._sent.setdefault((group.rank, partner), []).append(message)
        group.sends.append((partner, message))

    def receive(self, group: Group, partner: int, message: Message) -> None:
        received = self._received.setdefault((partner, group.rank), [])
        group.receives.append((partner, len(received), message))
        received.append(message)

    def execute(self, group: Group) -> None:
        """Do the work of a group, and of other ranks what it waits for."""
        self._running[group.rank] = group
        for _, message in group.sends:
            if not message.part(message.place.is_written).all() and self.recorders[group.rank].executes:
                raise Mismatch(f"rank {group.rank} sends memory that nothing has written")
            message.data = message.part(message.place.data).copy()
        for partner, place, message in group.receives:
            data = self._data(group.rank, partner, place, message.nbytes)
            message.part(message.place.data)[:] = data
            message.part(message.place.is_written)[:] = True
        del self._running[group.rank]
        self.groups += 1

    def _data(self, rank: int, partner: int, place: int, nbytes: int) -> np.ndarray:
        sent = self._sent.get((partner, rank), [])
        if place >= len(sent):
            raise Deadlock(f"rank {rank} waits for message {place} of rank {partner}, which has sent {len(sent)}")
        message = sent[place]
        if message.nbytes != nbytes:
            raise Mismatch(f"rank {rank} receives {nbytes} bytes, of which rank {partner} sends {message.nbytes}")
        if message.data is None:
            if (other := self._running.get(partner)) is not None:
                raise Deadlock(f"rank {rank} waits for rank {partner}, which waits in its group {other.number}")
            self.recorders[partner].stream(message.group.stream).run_to(message.group.number)
        assert message.data is not None
        return message.data

    def settled(self) -> None:
        """Raise unless each send has its receive."""
        for pair in {*self._sent, *self._received}:
            sent, received = len(self._sent.get(pair, [])), len(self._received.get(pair, []))
            if sent != received:
                raise Mismatch(f"rank {pair[0]} sends {sent} messages to rank {pair[1]}, which receives {received}")


class Member:
    """Messages of one rank without MPI: ranks come one after the other, rank 0 first."""

    def __init__(self, world: World, rank: int) -> None:
        self._world, self.rank, self.size = world, rank, len(world.recorders)

    def from_first(self, value: Any = None) -> Any:
        if self.rank == 0:
            self._world.shared = value
        return self._world.shared

    def require_same(self, facts: Mapping[str, Any], hint: str = "") -> None:
        self._world.facts.append(facts)

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Nothing: the recording driver executes what its host waits for."""


class Nccl:
    """The interface of `cupy.cuda.nccl` for one rank."""

    available = True
    NCCL_UINT8 = 1
    NcclError = NcclError

    def __init__(self, world: World, rank: int) -> None:
        self._world, self._rank = world, rank
        self.open: Group | None = None

    def get_version(self) -> int:
        return 22501

    def get_unique_id(self) -> bytes:
        assert self._rank == 0
        return bytes(range(128))

    def groupStart(self) -> None:
        assert self.open is None
        self.open = Group(self._rank)

    def groupEnd(self) -> None:
        group, self.open = self.open, None
        assert group is not None
        if not group.sends and not group.receives:
            return
        stream = self._world.recorders[self._rank].stream(group.stream)
        ends = [(message, False) for _, message in group.sends] + [(each[2], True) for each in group.receives]
        touched = [(each.place, each.start, each.nbytes, writes) for each, writes in ends]
        stream.give("a group of NCCL", lambda: self._world.execute(group), touched)
        group.number = stream.given

    def NcclCommunicator(self, size: int, identity: bytes, rank: int) -> Communicator:
        assert identity == bytes(range(128)) and (size, rank) == (len(self._world.recorders), self._rank)
        if self._world.failing:
            raise NcclError(self._world.failing)
        return Communicator(self._world, self, rank)


class Communicator:
    def __init__(self, world: World, nccl: Nccl, rank: int) -> None:
        self._world, self._nccl, self._rank, self._stream = world, nccl, rank, 0

    def send(self, address: int, nbytes: int, kind: int, partner: int, stream: int) -> None:
        self._world.send(*self._end(address, nbytes, kind, partner, stream))

    def recv(self, address: int, nbytes: int, kind: int, partner: int, stream: int) -> None:
        self._world.receive(*self._end(address, nbytes, kind, partner, stream))

    def check_async_error(self) -> None:
        if self._world.failing:
            raise NcclError(self._world.failing)

    def abort(self) -> None:
        self._world.aborted += 1

    def _end(self, address: int, nbytes: int, kind: int, partner: int, stream: int) -> tuple[Group, int, Message]:
        recorder, group = self._world.recorders[self._rank], self._nccl.open
        recorder.call("a message of NCCL")
        self.check_async_error()
        if group is None:
            raise Mismatch("a message outside of a group: two ranks that both send first would wait forever")
        if self._stream not in (0, stream):
            raise Mismatch("a communicator is used on two streams")
        assert kind == self._nccl.NCCL_UINT8 and nbytes > 0 and partner != self._rank
        self._stream = group.stream = stream
        place, start = recorder.find(address, nbytes)
        return group, partner, Message(group, place, start, nbytes)

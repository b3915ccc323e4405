"""What the process that trains and its workers say to each other."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.datasets.making import Unusable
from trainer.datasets.planning import Plan
from trainer.datasets.workers.payload import Payload
from trainer.datasets.workers.slots import Placed


@dataclass(frozen=True, slots=True)
class Register:
    """To a worker: keep this maker of batches under a key. Its memories travel along."""

    key: int
    payload: Payload


@dataclass(frozen=True, slots=True)
class AddSlot:
    """To a worker: a slot's memory, which travels along."""

    slot: int


@dataclass(frozen=True, slots=True)
class Make:
    """To a worker: make a batch in a slot."""

    number: int
    key: int
    plan: Plan
    slot: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """To a worker: these batches are no longer wanted; answer without making them, if you haven't begun."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way out of a worker.

    Args:
        kind: "item" (an item can't be used), "mistake" (another `TrainerError`) or "failure".
        text: of the error; `fields` are those of a `TrainerError`.
        traceback: the worker's.
        unusable: the item, where there is one.
    """

    kind: str
    text: str
    fields: dict[str, str | None]
    traceback: str
    unusable: Unusable | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """From a worker: batch `number` lies in its slot, or was not made: cancelled, or failed of `failure`."""

    number: int
    placed: dict[str, Placed] | None = None
    unusable: tuple[Unusable, ...] = ()
    failure: Failure | None = None

"""Messages between the training process and its workers."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.datasets.making import Unusable
from trainer.datasets.planning import Plan
from trainer.datasets.workers.payload import Payload
from trainer.datasets.workers.slots import Placed


@dataclass(frozen=True, slots=True)
class Register:
    """To a worker: store this maker of batches under a key; its memories are sent along."""

    key: int
    payload: Payload


@dataclass(frozen=True, slots=True)
class AddSlot:
    """To a worker: the memory of a slot, which is sent along."""

    slot: int


@dataclass(frozen=True, slots=True)
class Make:
    """To a worker: create a batch in a slot."""

    number: int
    key: int
    plan: Plan
    slot: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """To a worker: these batches are cancelled; skip those not started."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a worker.

    Args:
        kind: "item" (an unusable item), "mistake" (another `TrainerError`) or "failure".
        text: text of the error; `fields` are those of a `TrainerError`.
        traceback: traceback in the worker.
        unusable: the item, if any.
    """

    kind: str
    text: str
    fields: dict[str, str | None]
    traceback: str
    unusable: Unusable | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """From a worker: batch `number` is in its slot, or was not created: cancelled, or failed with `failure`."""

    number: int
    placed: dict[str, Placed] | None = None
    unusable: tuple[Unusable, ...] = ()
    failure: Failure | None = None

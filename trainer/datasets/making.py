"""Creates batches from a data set. The plan and the data set can be passed to other threads and processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from trainer import TrainerError
from trainer.datasets.collate import FIT, Collation, Shapes, as_batch, batch_shapes, fill
from trainer.datasets.dataset import Dataset, gives_batches, is_in_memory, take
from trainer.datasets.fields import WEIGHT, Batch, Item
from trainer.datasets.order import Draws
from trainer.datasets.planning import Plan

BatchTransform = Callable[[Batch, Draws], Batch]
"""Changes a batch (augmentation); all random numbers come from `Draws`, one row per item."""

OnError = Literal["raise", "skip"]

_MOST_FOLLOWING = 64
"""Maximum number of following items to try if all items of a batch are unusable."""

Room = Callable[[Shapes], dict[str, np.ndarray]]
"""Allocates arrays of these shapes and dtypes for a batch."""


@runtime_checkable
class EpochDataset(Dataset, Protocol):
    """A data set whose items depend on the epoch, such as a pipeline with random transforms."""

    def item(self, index: int, epoch: int) -> Item:
        """Item `index` in `epoch`."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """An unusable item: its index, origin and error."""

    index: int
    source: str
    reason: str
    message: str


class UnusableItem(Exception):
    """Raised for an unusable item; wraps its error."""

    def __init__(self, unusable: Unusable, error: TrainerError) -> None:
        super().__init__(unusable.reason)
        self.unusable, self.error = unusable, error


@dataclass(frozen=True, slots=True)
class Made:
    """A batch, and its unusable items."""

    batch: Batch
    unusable: tuple[Unusable, ...] = ()


def new_arrays(shapes: Shapes) -> dict[str, np.ndarray]:
    """Allocates arrays in this process's memory."""
    return {name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()}


@dataclass(frozen=True, slots=True)
class BatchMaker:
    """Creates batches of a data set: a pure function of the plan.

    `on_error="skip"` replaces an unusable item with another one at weight 0. With `never_empty`, one replacement has
    weight 1 if the batch would have no weight, because the mean loss of an empty batch is undefined.
    """

    dataset: Dataset
    seed: int = 0
    transform: BatchTransform | None = None
    collation: Collation = FIT
    on_error: OnError = "raise"
    never_empty: bool = False

    @property
    def takes_batches(self) -> bool:
        """Whether the data set returns whole batches, as arrays in memory do."""
        return self.on_error == "raise" and gives_batches(self.dataset) and not isinstance(self.dataset, EpochDataset)

    @property
    def is_in_memory(self) -> bool:
        """Whether a thread creates batches fast enough."""
        return self.takes_batches or (is_in_memory(self.dataset) and not isinstance(self.dataset, EpochDataset))

    def make(self, plan: Plan, room: Room = new_arrays, now: Callable[[int], None] | None = None) -> Made:
        """Creates the batch; `now` receives the index of each item before it is read.

        Raises:
            UnusableItem: an item is unusable and must not be skipped.
            TrainerError: no item is usable, or items don't fit into one batch.
        """
        unusable: list[Unusable] = []
        weight = plan.weight.copy()
        if self.takes_batches:
            return Made(self._finished(take(self.dataset, plan.indices), weight, plan))
        items = self._items(plan, weight, unusable, now)
        if self.never_empty and plan.weight.any() and not weight.any():  # a process's part may be all padding
            weight[0] = 1
        shapes = batch_shapes(items, self.collation, where=lambda row: self.dataset.source(int(plan.indices[row])))
        _refuse_weight(shapes)
        if self.transform is not None:
            arrays = new_arrays(shapes)
            fill(arrays, items)
            return Made(self._finished(as_batch(arrays), weight, plan), tuple(unusable))
        arrays = room({**shapes, WEIGHT: (weight.shape, weight.dtype)})
        fill({name: arrays[name] for name in shapes}, items)
        arrays[WEIGHT][:] = weight
        return Made(as_batch(arrays), tuple(unusable))

    def _finished(self, batch: Batch, weight: np.ndarray, plan: Plan) -> Batch:
        _refuse_weight(batch)
        if self.transform is not None:
            batch = self.transform(batch, Draws(self.seed, plan.epoch, plan.indices))
        return {**batch, WEIGHT: weight}

    def _items(
        self, plan: Plan, weight: np.ndarray, unusable: list[Unusable], now: Callable[[int], None] | None
    ) -> list[Item]:
        items: list[Item | None] = []
        for row, index in enumerate(plan.indices.tolist()):
            if now is not None:
                now(index)
            try:
                items.append(self._item(index, plan.epoch))
            except TrainerError as error:
                found = Unusable(index, self.dataset.source(index), str(error), error.message)
                if self.on_error == "raise":
                    raise UnusableItem(found, error) from error
                unusable.append(found)
                items.append(None)
                weight[row] = 0
            except Exception as error:
                error.add_note(f"This was item {index}: {self.dataset.source(index)}")
                raise
        good = next((item for item in items if item is not None), None) or self._following(plan)
        if good is None:
            raise TrainerError(
                "all items of a batch are unusable",
                where=unusable[0].source,
                found=f"{len(items)} unusable items, and those after them; the first: {unusable[0].message}",
            )
        return [good if item is None else item for item in items]

    def _following(self, plan: Plan) -> Item | None:
        """The first usable item after the batch's last one; None after too many unusable ones."""
        last, count = int(plan.indices[-1]), len(self.dataset)
        for step in range(1, min(count, _MOST_FOLLOWING)):
            with suppress(TrainerError):
                return self._item((last + step) % count, plan.epoch)
        return None

    def _item(self, index: int, epoch: int) -> Item:
        if isinstance(self.dataset, EpochDataset):
            return self.dataset.item(index, epoch)
        return self.dataset[index]


def _refuse_weight(fields: object) -> None:
    if WEIGHT in fields:  # type: ignore[operator]
        raise TrainerError(f"the items have a field {WEIGHT!r}, a name reserved for the loader")

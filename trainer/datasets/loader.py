"""From a data set to batches of one fixed shape, in an order that can be taken up again anywhere.

loader = Loader(dataset, batch_size=64, seed=0, shuffle=True)
for epoch in range(epochs):
    with loader.epoch(epoch) as batches:      # or epoch(epoch, start=step) after resuming
        for batch in batches:                 # {"image": ..., "label": ..., "weight": float32 [B]}
            loader.position                   # Position(epoch, step) of the batch that comes next
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.collate import FIT, Collation, collate
from trainer.datasets.dataset import BatchedDataset, Dataset
from trainer.datasets.fields import WEIGHT, Batch, Item
from trainer.datasets.order import Draws, epoch_order
from trainer.datasets.prefetch import Prefetch

BatchTransform = Callable[[Batch, Draws], Batch]
"""Changes a batch (augmentation, say); all that is random in it comes from the `Draws`, one row an item."""


@dataclass(frozen=True, slots=True)
class Position:
    """The batch that comes next: batch `step` of epoch `epoch`, both counted from 0."""

    epoch: int
    step: int


@dataclass(frozen=True, slots=True)
class BadItem:
    """An item that could not be used; `count` is how many there were so far."""

    source: str
    reason: str
    action: Literal["skipped", "raised"]
    count: int


class Loader:
    """Batches of `dataset`, each a dictionary of arrays with `batch_size` rows.

    The order is a permutation keyed by (seed, epoch). Every batch has a field "weight" (float32 [B]): 1, or 0 for a row
    that only fills the batch. With `pad_last` the last batch is filled up with rows from the start of the epoch at
    weight 0; without, the rows that don't fill a batch are left out.

    `collation` says to which sizes batches are filled up where items differ (boxes, tokens, sizes of images).

    `workers` threads prepare batches ahead; without any each is made when it is asked for. The batches are the same.
    `on_error="skip"` gives an unusable item weight 0 and another item's content; `on_bad_item` hears of it either way,
    from the thread that found it. `data_wait` is the time in seconds spent waiting for batches, by `clock`.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = False,
        pad_last: bool = True,
        *,
        transform: BatchTransform | None = None,
        collation: Collation = FIT,
        on_error: Literal["raise", "skip"] = "raise",
        on_bad_item: Callable[[BadItem], None] | None = None,
        workers: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if len(dataset) == 0:
            raise TrainerError("the data set is empty", expected="at least one item")
        if batch_size < 1 or (not pad_last and batch_size > len(dataset)):
            raise TrainerError(
                "the batch size does not fit the data",
                found=f"batches of {batch_size} from {len(dataset)} items",
                expected="at least 1" if batch_size < 1 else f"at most {len(dataset)}",
            )
        self.dataset, self.batch_size, self.seed = dataset, batch_size, seed
        self.shuffle, self.pad_last = shuffle, pad_last
        self.collation = collation
        self.transform, self.on_error, self.on_bad_item = transform, on_error, on_bad_item
        self.position = Position(0, 0)
        self.data_wait = 0.0
        self.bad_items = 0
        self._workers, self._clock = workers, clock
        self._lock = threading.Lock()

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one epoch."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (1 if rest and self.pad_last else 0)

    def epoch(self, epoch: int, start: int = 0) -> EpochBatches:
        """The batches of `epoch` from batch `start` on; takes up a position without visiting what lies before it."""
        if not 0 <= start <= self.steps_per_epoch:
            raise TrainerError(
                "no such position in the epoch", found=f"step {start}", expected=f"0 to {self.steps_per_epoch}"
            )
        self.position = Position(epoch, start)
        return EpochBatches(self, epoch, start, self._workers, self._clock)

    def batch(self, epoch: int, step: int, order: np.ndarray | None = None) -> Batch:
        """Batch `step` of `epoch`, made here and now; `order` spares working out the permutation again."""
        if order is None:
            order = epoch_order(len(self.dataset), seed=self.seed, epoch=epoch, shuffle=self.shuffle)
        first = step * self.batch_size
        indices = np.take(order, np.arange(first, first + self.batch_size), mode="wrap")
        weight = (np.arange(first, first + self.batch_size) < len(order)).astype(np.float32)
        if isinstance(self.dataset, BatchedDataset) and self.on_error == "raise":
            batch = self.dataset.take(indices)
        else:
            batch = self._item_by_item(indices, weight)
        if WEIGHT in batch:
            raise TrainerError(f"the data set's items have a field {WEIGHT!r}, which the loader itself makes")
        if self.transform is not None:
            batch = self.transform(batch, Draws(self.seed, epoch, indices))
        return {**batch, WEIGHT: weight}

    def source_of(self, epoch: int, step: int, row: int) -> str:
        """Where the item in `row` of batch `step` of `epoch` comes from, in words that lead a person to it."""
        order = epoch_order(len(self.dataset), seed=self.seed, epoch=epoch, shuffle=self.shuffle)
        return self.dataset.source(int(order[(step * self.batch_size + row) % len(order)]))

    def _item_by_item(self, indices: np.ndarray, weight: np.ndarray) -> Batch:
        """The stacked items; one that can't be used gets weight 0 and a good one's content, or is raised."""
        items: list[Item | None] = []
        for row, index in enumerate(indices):
            try:
                items.append(self.dataset[int(index)])
            except TrainerError as error:
                self._report(int(index), error)
                if self.on_error == "raise":
                    raise
                items.append(None)
                weight[row] = 0
        good = next((item for item in items if item is not None), None)
        if good is None:
            raise TrainerError(
                "no item of a batch can be used",
                where=self.dataset.source(int(indices[0])),
                found=f"{len(items)} unusable items in a row",
                hint="Each is listed in the run directory with its reason.",
            )
        return collate(
            [good if item is None else item for item in items],
            self.collation,
            where=lambda row: self.dataset.source(int(indices[row])),
        )

    def _report(self, index: int, error: TrainerError) -> None:
        action: Literal["skipped", "raised"] = "skipped" if self.on_error == "skip" else "raised"
        with self._lock:
            self.bad_items += 1
            if self.on_bad_item is not None:
                self.on_bad_item(BadItem(self.dataset.source(index), str(error), action, self.bad_items))


class EpochBatches:
    """The rest of one epoch, from the loader's workers; reading it moves the loader's `position` and `data_wait`."""

    def __init__(self, loader: Loader, epoch: int, start: int, workers: int, clock: Callable[[], float]) -> None:
        self._loader, self._epoch, self._step = loader, epoch, start
        self._waited_before = loader.data_wait
        order = epoch_order(len(loader.dataset), seed=loader.seed, epoch=epoch, shuffle=loader.shuffle)
        self._prefetch = Prefetch(
            lambda step: loader.batch(epoch, step, order),
            range(start, loader.steps_per_epoch),
            workers=workers,
            clock=clock,
        )

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        try:
            batch = next(self._prefetch)
        finally:
            self._loader.data_wait = self._waited_before + self._prefetch.waited
        self._step += 1
        self._loader.position = Position(self._epoch, self._step)
        return batch

    def close(self) -> None:
        """Stop preparing batches; the position stays where it is."""
        self._prefetch.close()

    def __enter__(self) -> EpochBatches:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

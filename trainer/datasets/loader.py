"""Loads batches of few different shapes from a data set, in an order that can be resumed at any batch.

loader = Loader(dataset, batch_size=64, seed=0, shuffle=True, workers=4)
for epoch in range(epochs):
    with loader.epoch(epoch) as batches:      # or epoch(epoch, start=step) after resuming
        for batch in batches:                 # {"image": ..., "label": ..., "weight": float32 [B]}
            loader.position                   # Position(epoch, step) of the next batch
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.collate import FIT, Collation
from trainer.datasets.dataset import Dataset
from trainer.datasets.fields import Batch
from trainer.datasets.making import BatchMaker, BatchTransform, Made, OnError, Unusable, UnusableItem
from trainer.datasets.planning import Plan, Planner, Position
from trainer.datasets.prefetch import Prefetch
from trainer.datasets.samplers import InOrder, Sampler, Shuffled
from trainer.datasets.workers import Kind, Later, Workers, free_memory, workers_for

BATCHES_AHEAD = 2
PREFETCH_SHARE = 0.25
"""Fraction of the memory free at the first batch that prefetched batches may use."""


@dataclass(frozen=True, slots=True)
class BadItem:
    """An unusable item; `count` is the number of distinct unusable items so far."""

    source: str
    reason: str
    action: Literal["skipped", "raised"]
    count: int


class Loader:
    """Loads batches of `dataset`, each a dictionary of arrays with `batch_size` rows.

    The sampler determines the order from (seed, epoch): a random permutation with `shuffle`, otherwise the order of
    the data set. Every batch has a field "weight" (float32 [B]): 1, or 0 for padding. With `pad_last` the last batch is
    padded with rows from the start of the epoch at weight 0; otherwise an incomplete batch is dropped. `collation` sets
    the sizes to which batches are padded if items differ (boxes, tokens, images).

    `workers` threads or processes (`worker_kind`) load batches in advance: `prefetch` per worker, limited to a quarter
    of the free memory. Without workers, each batch is loaded when needed. Batches don't depend on the workers.
    Several loaders may share workers. The arrays of a batch from worker processes are in shared memory, which is not
    reused while one of them is referenced.

    `on_error="skip"` replaces an unusable item with another one at weight 0; with `never_empty` one replacement has
    weight 1 if the batch would have no weight. `on_bad_item` is called once per unusable item when its batch is
    returned. `bad_items` counts them by reason. `data_wait` is the time in seconds spent waiting for batches, by
    `clock`. `tell` receives messages about workers that died or are slow.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = False,
        pad_last: bool = True,
        *,
        sampler: Sampler | None = None,
        transform: BatchTransform | None = None,
        collation: Collation = FIT,
        on_error: OnError = "raise",
        never_empty: bool = False,
        on_bad_item: Callable[[BadItem], None] | None = None,
        workers: int | Workers = 0,
        worker_kind: Kind = "auto",
        prefetch: int = BATCHES_AHEAD,
        clock: Callable[[], float] = time.perf_counter,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        if len(dataset) == 0:
            raise TrainerError("the data set is empty", expected="at least one item")
        self.sampler = sampler or (Shuffled(len(dataset)) if shuffle else InOrder(len(dataset)))
        if batch_size < 1 or (not pad_last and batch_size > len(self.sampler)):
            raise TrainerError(
                "the batch size doesn't fit the data",
                found=f"batches of {batch_size} from {len(self.sampler)} items",
                expected="at least 1" if batch_size < 1 else f"at most {len(self.sampler)}",
            )
        self.dataset, self.batch_size, self.seed, self.pad_last = dataset, batch_size, seed, pad_last
        self.on_bad_item, self.tell = on_bad_item, tell
        self.position = Position(0, 0)
        self.data_wait = 0.0
        self.bad_items: Counter[str] = Counter()
        self._maker = BatchMaker(dataset, seed, transform, collation, on_error, never_empty)
        self.workers = (
            workers_for(self._maker, workers, worker_kind, prefetch, self._warn)
            if isinstance(workers, int)
            else workers
        )
        self._whole_plan = self._plan = Planner(self.sampler, batch_size, seed)
        self._ask = self.workers.register(self._maker, self._plan)
        self._clock = clock
        self._bad: set[int] = set()
        self._batch_bytes = self._room = 0
        self._handed_on: _Ahead | None = None

    def take_rows(self, rows: slice) -> None:
        """Loads only these rows of each batch from now on; other processes load the rest.

        Raises:
            TrainerError: unusable items are skipped, which depends on the other rows of a batch.
        """
        if self._maker.on_error == "skip":
            raise TrainerError(
                "unusable items can't be skipped where each process reads a part of the batch",
                where="data.on_error", found="skip", expected="raise",
                hint="Remove the items from the data, or train in one process.",
            )  # fmt: skip
        self._plan = Planner(self.sampler, self.batch_size, self.seed, rows)
        self._ask = self.workers.register(self._maker, self._plan)

    @property
    def steps_per_epoch(self) -> int:
        """Batches per epoch."""
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (1 if rest and self.pad_last else 0)

    @property
    def room_for_objects(self) -> int | None:
        """The number of objects to which batches are padded; None if it depends on the batch."""
        collation = self._maker.collation
        return collation.objects if collation.objects is not None else collation.least_objects

    @property
    def token_lengths(self) -> tuple[int, ...]:
        """The lengths to which texts are padded, in increasing order; empty if they depend on the batch."""
        collation = self._maker.collation
        return collation.lengths if collation.tokens is None else (collation.tokens,)

    def epoch(self, epoch: int, start: int = 0, *, continues: bool = False) -> EpochBatches:
        """The batches of `epoch` from batch `start` on; skips earlier batches without loading them.

        With `continues`, workers start loading the next epoch's batches near the end of this one.
        """
        if not 0 <= start <= self.steps_per_epoch:
            raise TrainerError(
                "invalid position in the epoch", found=f"step {start}", expected=f"0 to {self.steps_per_epoch}"
            )
        self.position = Position(epoch, start)
        return EpochBatches(self, self._ahead(self.position, continues), self._clock)

    def batch(self, epoch: int, step: int) -> Batch:
        """Batch `step` of `epoch`, loaded in this process."""
        return self._taken(Later(self._maker, self._plan, Position(epoch, step)).result)

    def items_of(self, epoch: int, step: int) -> np.ndarray:
        """The data set indices of the items of a batch, int64 [B]."""
        return self._whole_plan(Position(epoch, step)).indices

    def single(self, item: int) -> Batch:
        """A batch of one item of the data set, loaded in this process, as in the first epoch."""
        return self._taken(lambda: self._maker.make(Plan(0, np.array([item]), np.ones(1, np.float32))))

    def source_of(self, epoch: int, step: int, row: int) -> str:
        """The origin of the item in `row` of batch `step` of `epoch`, as text."""
        return self.dataset.source(int(self._whole_plan(Position(epoch, step)).indices[row]))

    def close(self) -> None:
        """Ends the workers, also for other loaders that share them."""
        if self._handed_on is not None:
            self._handed_on.prefetch.close()
            self._handed_on = None
        self.workers.close()

    def _ahead(self, first: Position, continues: bool) -> _Ahead:
        handed_on, self._handed_on = self._handed_on, None
        if handed_on is not None and handed_on.first != first:
            handed_on.prefetch.close()
            handed_on = None
        if handed_on is None:
            positions = _Positions(first, self.steps_per_epoch, continues)
            few = min(self.workers.ahead, BATCHES_AHEAD * self.workers.workers)
            handed_on = _Ahead(first, positions, Prefetch(self._ask, positions, few))
            self._bound(handed_on.prefetch)
            return handed_on
        handed_on.positions.last_epoch = None if continues else first.epoch
        return handed_on

    def _note_size(self, batch: Batch, prefetch: Prefetch[Position, Made]) -> None:
        """Records the largest size of a batch, and derives the number of prefetched batches from the free memory."""
        size = sum(array.nbytes for array in batch.values())
        if size > self._batch_bytes:
            if self._room == 0:
                self._room = int(PREFETCH_SHARE * free_memory())
            self._batch_bytes = size
            self._bound(prefetch)

    def _bound(self, prefetch: Prefetch[Position, Made]) -> None:
        """Limits the number of prefetched batches by the memory, once the size of a batch is known."""
        if self._batch_bytes:
            workers = self.workers
            prefetch.ahead = min(workers.ahead, max(workers.workers, self._room // self._batch_bytes))

    def _taken(self, take: Callable[[], Made]) -> Batch:
        """The batch returned by `take`; reports its unusable items."""
        try:
            made = take()
        except UnusableItem as error:
            self._report(error.unusable, "raised")
            raise error.error from None
        for unusable in made.unusable:
            self._report(unusable, "skipped")
        return made.batch

    def _report(self, unusable: Unusable, action: Literal["skipped", "raised"]) -> None:
        if unusable.index in self._bad:
            return
        self._bad.add(unusable.index)
        self.bad_items[unusable.message] += 1
        if self.on_bad_item is not None:
            self.on_bad_item(BadItem(unusable.source, unusable.reason, action, len(self._bad)))

    def _warn(self, what: str) -> None:
        if self.tell is not None:
            self.tell(what)


class _Positions:
    """The positions from `first` to the end of its epoch; with `continues`, to the end of `last_epoch`, set later."""

    def __init__(self, first: Position, steps_per_epoch: int, continues: bool) -> None:
        self._next, self._steps = first, steps_per_epoch
        self.last_epoch = None if continues else first.epoch

    def __iter__(self) -> Iterator[Position]:
        return self

    def __next__(self) -> Position:
        if self._next.step == self._steps:
            if self._next.epoch == self.last_epoch:
                raise StopIteration
            self._next = Position(self._next.epoch + 1, 0)
        position = self._next
        self._next = Position(position.epoch, position.step + 1)
        return position


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Requested batches, from `first` on."""

    first: Position
    positions: _Positions
    prefetch: Prefetch[Position, Made]


class EpochBatches:
    """The rest of one epoch; iteration updates the loader's `position` and `data_wait`."""

    def __init__(self, loader: Loader, ahead: _Ahead, clock: Callable[[], float]) -> None:
        self._loader, self._clock = loader, clock
        self._ahead: _Ahead | None = ahead
        self._position = ahead.first

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        ahead = self._ahead
        if ahead is None or self._position.step == self._loader.steps_per_epoch:
            self.close()
            raise StopIteration
        started = self._clock()
        try:
            batch = self._loader._taken(ahead.prefetch.__next__)
        except BaseException:
            self._ahead = None
            raise
        finally:
            self._loader.data_wait += self._clock() - started
        self._loader._note_size(batch, ahead.prefetch)
        self._position = self._loader.position = Position(self._position.epoch, self._position.step + 1)
        return batch

    def close(self) -> None:
        """Stops loading batches of this epoch; the position is kept."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return
        if ahead.positions.last_epoch is None and self._position.step == self._loader.steps_per_epoch:
            self._loader._handed_on = replace(ahead, first=Position(self._position.epoch + 1, 0))
        else:
            ahead.prefetch.close()

    def __enter__(self) -> EpochBatches:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

"""The loader: order, shape of the last batch, position, bad items, threads that prepare batches."""

from __future__ import annotations

import gc
import queue
import threading

import numpy as np
import pytest

from trainer import TrainerError
from trainer.datasets import ArrayDataset, BadItem, Batch, Draws, Item, Loader, Position, Subset


def numbers(count: int) -> ArrayDataset:
    return ArrayDataset({"value": np.arange(count)}, name="numbers")


def values(batches: object) -> list[list[int]]:
    return [batch["value"].tolist() for batch in batches]  # type: ignore[attr-defined]


class Picky:
    """Items one by one; those in `bad` can't be used."""

    class_names = ()

    def __init__(self, count: int, bad: set[int]) -> None:
        self.count, self.bad = count, bad

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Item:
        if index in self.bad:
            raise TrainerError("unreadable")
        return {"value": np.int64(index)}  # type: ignore[dict-item]

    def source(self, index: int) -> str:
        return f"picky/{index}.png"


def test_an_epoch_visits_every_item_once_at_weight_one() -> None:
    loader = Loader(numbers(10), 4, seed=3, shuffle=True)
    batches = list(loader.epoch(0))
    assert loader.steps_per_epoch == len(batches) == 3
    weights = np.concatenate([batch["weight"] for batch in batches])
    assert weights.dtype == np.float32 and weights.tolist() == [1] * 10 + [0] * 2
    seen = np.concatenate([batch["value"] for batch in batches])
    assert sorted(seen[weights == 1].tolist()) == list(range(10))
    assert seen[10:].tolist() == seen[:2].tolist()  # the filling is made of real items


def test_without_padding_the_rest_is_left_out() -> None:
    loader = Loader(numbers(10), 4, pad_last=False)
    assert values(loader.epoch(0)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert loader.steps_per_epoch == 2


def test_a_batch_larger_than_the_data_is_filled_by_going_round() -> None:
    (batch,) = Loader(numbers(3), 8).epoch(0)
    assert batch["value"].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert batch["weight"].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def test_a_position_is_taken_up_without_visiting_what_lies_before() -> None:
    whole = values(Loader(numbers(20), 4, seed=1, shuffle=True).epoch(2))
    loader = Loader(numbers(20), 4, seed=1, shuffle=True, transform=visited)
    VISITED.clear()
    assert values(loader.epoch(2, start=3)) == whole[3:]
    assert len(VISITED) == 2
    assert values(loader.epoch(2, start=5)) == []


VISITED: list[np.ndarray] = []


def visited(batch: Batch, draws: Draws) -> Batch:
    VISITED.append(draws.indices)
    return batch


def test_the_position_is_the_batch_that_comes_next_not_the_one_prepared() -> None:
    loader = Loader(numbers(20), 4, seed=1, shuffle=True, workers=3)
    with loader.epoch(5, start=1) as batches:
        assert loader.position == Position(5, 1)
        next(batches)
        next(batches)
        assert loader.position == Position(5, 3)
    assert loader.position == Position(5, 3)


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_do_not_change_the_batches(workers: int) -> None:
    alone = values(Loader(numbers(50), 4, seed=1, shuffle=True).epoch(2))
    assert values(Loader(numbers(50), 4, seed=1, shuffle=True, workers=workers).epoch(2)) == alone


def test_items_one_by_one_give_the_same_batches_as_arrays() -> None:
    by_item = Loader(Picky(10, set()), 4, seed=3, shuffle=True)
    by_array = Loader(numbers(10), 4, seed=3, shuffle=True)
    assert values(by_item.epoch(1)) == values(by_array.epoch(1))


def test_bad_items_are_skipped_at_weight_zero_and_reported() -> None:
    reports: list[BadItem] = []
    loader = Loader(Picky(6, {1, 3}), 3, on_error="skip", on_bad_item=reports.append)
    batches = list(loader.epoch(0))
    assert [batch["value"].tolist() for batch in batches] == [[0, 0, 2], [4, 4, 5]]
    assert [batch["weight"].tolist() for batch in batches] == [[1, 0, 1], [0, 1, 1]]
    assert [(report.source, report.action, report.count) for report in reports] == [
        ("picky/1.png", "skipped", 1),
        ("picky/3.png", "skipped", 2),
    ]
    assert "unreadable" in reports[0].reason


@pytest.mark.parametrize("never_empty", [False, True])
def test_a_batch_without_usable_items_has_another_ones_content(never_empty: bool) -> None:
    loader = Loader(Picky(3, {0}), 1, on_error="skip", never_empty=never_empty)
    batches = list(loader.epoch(0))
    assert [batch["value"].tolist() for batch in batches] == [[1], [1], [2]]
    assert [batch["weight"].tolist() for batch in batches] == [[float(never_empty)], [1], [1]]
    last = list(Loader(Picky(5, {4}), 4, on_error="skip", never_empty=never_empty).epoch(0))[1]
    assert last["value"].tolist() == [0, 0, 1, 2] and last["weight"].tolist() == [float(never_empty), 0, 0, 0]


def test_the_part_of_a_process_may_be_padding_alone() -> None:
    loader = Loader(Picky(5, set()), 4, never_empty=True)
    loader.take_rows(slice(2, 4))
    batches = list(loader.epoch(0))
    assert [batch["value"].tolist() for batch in batches] == [[2, 3], [1, 2]]
    assert [batch["weight"].tolist() for batch in batches] == [[1, 1], [0, 0]]


def test_a_bad_item_is_raised_where_asked_for() -> None:
    reports: list[BadItem] = []
    batches = iter(Loader(Picky(6, {4}), 3, on_error="raise", on_bad_item=reports.append, workers=1).epoch(0))
    assert next(batches)["value"].tolist() == [0, 1, 2]
    with pytest.raises(TrainerError, match="unreadable"):
        next(batches)
    assert [report.action for report in reports] == ["raised"]


def test_a_batch_without_any_usable_item_is_an_error() -> None:
    with pytest.raises(TrainerError, match="all items of a batch"):
        list(Loader(Picky(3, {0, 1, 2}), 3, on_error="skip").epoch(0))


@pytest.mark.parametrize(("count", "batch_size", "pad"), [(0, 4, True), (4, 0, True), (4, 5, False)])
def test_impossible_sizes_are_refused(count: int, batch_size: int, pad: bool) -> None:
    with pytest.raises(TrainerError):
        Loader(numbers(count), batch_size, pad_last=pad)


def test_a_position_outside_the_epoch_is_refused() -> None:
    with pytest.raises(TrainerError, match="0 to 3"):
        Loader(numbers(10), 4).epoch(0, start=4)


def test_waiting_is_measured_with_the_clock() -> None:
    ticks = iter(range(100))
    loader = Loader(numbers(8), 4, clock=lambda: float(next(ticks)))
    list(loader.epoch(0))
    assert loader.data_wait == 2.0  # two batches, each between two ticks
    list(loader.epoch(1))
    assert loader.data_wait == 4.0


def test_workers_go_on_with_the_next_epoch_where_it_continues() -> None:
    made: queue.Queue[int] = queue.Queue()

    def noted(batch: Batch, draws: Draws) -> Batch:
        made.put(draws.epoch)
        return batch

    expected = [values(Loader(numbers(12), 4, seed=1, shuffle=True).epoch(epoch)) for epoch in (3, 4)]
    loader = Loader(numbers(12), 4, seed=1, shuffle=True, transform=noted, workers=1)
    assert values(loader.epoch(3, continues=True)) == expected[0]
    assert [made.get(timeout=10) for _ in range(5)] == [3, 3, 3, 4, 4]  # nobody has asked for epoch 4 yet
    assert values(loader.epoch(4)) == expected[1]
    assert made.get(timeout=10) == 4 and made.empty()  # the two that had been made were taken, and none of epoch 5
    loader.close()


def test_what_was_made_of_the_next_epoch_is_dropped_where_another_comes() -> None:
    loader = Loader(numbers(12), 4, seed=1, shuffle=True, workers=1)
    list(loader.epoch(0, continues=True))
    alone = Loader(numbers(12), 4, seed=1, shuffle=True)
    assert values(loader.epoch(2, start=1)) == values(alone.epoch(2, start=1))
    assert values(loader.epoch(1, continues=True)) == values(alone.epoch(1))
    loader.close()


def test_bad_items_are_counted_by_reason_and_told_of_once() -> None:
    reports: list[BadItem] = []
    loader = Loader(Picky(6, {1, 3}), 3, on_error="skip", on_bad_item=reports.append)
    for epoch in range(3):
        list(loader.epoch(epoch))
    assert loader.bad_items == {"unreadable": 2} and [report.count for report in reports] == [1, 2]


def test_the_item_is_named_whatever_it_fails_of() -> None:
    class Wrong(Picky):
        def __getitem__(self, index: int) -> Item:
            raise KeyError(index)

    with pytest.raises(KeyError) as caught:
        list(Loader(Wrong(6, set()), 3).epoch(0))
    assert caught.value.__notes__ == ["This was item 0: picky/0.png"]
    images = ArrayDataset({"image": np.zeros((4, 3, 4, 4))})
    with pytest.raises(TrainerError, match=r"array\[2\]: the field 'image'"):
        list(Loader(Subset(Items(images), [2]), 1).epoch(0))


class Items:
    """A data set that gives no batches."""

    class_names = ()

    def __init__(self, dataset: ArrayDataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Item:
        return self.dataset[index]

    def source(self, index: int) -> str:
        return self.dataset.source(index)


def test_closing_or_dropping_a_loader_ends_its_threads() -> None:
    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("data")}

    before = threads()
    loader = Loader(numbers(50), 4, workers=2)
    next(loader.epoch(0))
    assert threads() - before
    loader.close()
    assert not threads() - before
    assert len(list(loader.epoch(0))) == 13  # closing is not for ever
    started = threads() - before
    del loader
    gc.collect()
    for thread in started:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize(("free", "expected"), [(10**12, 200), (4 * 304 * 10, 10), (0, 2)])
def test_batches_are_prepared_ahead_as_memory_allows(monkeypatch: pytest.MonkeyPatch, free: int, expected: int) -> None:
    monkeypatch.setattr("trainer.datasets.loader.free_memory", lambda: free)
    data = ArrayDataset({"value": np.zeros((4000, 9), np.int64)}, name="numbers")
    loader = Loader(data, 4, workers=2, worker_kind="thread", prefetch=100)  # of 304 bytes
    try:
        with loader.epoch(0) as batches:
            assert pending(loader, batches) <= 4  # a batch's size is not known
            for _ in range(400):
                next(batches)
            ahead = pending(loader, batches)
        with loader.epoch(1) as batches:
            assert pending(loader, batches) <= 4
    finally:
        loader.close()
    assert ahead == expected


def pending(loader: Loader, batches: object) -> int:
    return len(batches._ahead.prefetch._pending)  # type: ignore[attr-defined]

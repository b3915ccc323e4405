"""The cache of decoded items: what it gives back, its limit, and that processes share it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.configs.custom_class import own_class
from trainer.datasets import Cached, Item, ItemCache, Loader

RANDOM = np.random.default_rng(0)


class Counted:
    """Items of random bytes that count how often each is read."""

    class_names = ("one",)

    def __init__(self, sizes: list[int]) -> None:
        self.items = [{"x": RANDOM.integers(0, 256, size, dtype=np.uint8), "n": np.int64(size)} for size in sizes]
        self.reads = [0] * len(sizes)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Item:
        self.reads[index] += 1
        return self.items[index]  # type: ignore[return-value]

    def source(self, index: int) -> str:
        return f"item {index}"


def test_items_come_back_as_they_were_and_are_read_once() -> None:
    dataset = Counted([5, 0, 1000])
    item = {
        "image": RANDOM.integers(0, 256, (4, 5, 3), dtype=np.uint8), "label": np.int64(3), "none": np.zeros((0, 4)),
        "flags": np.array([True, False]), "column": np.arange(6.0).reshape(2, 3).T,
    }  # fmt: skip
    dataset.items[1] = item  # type: ignore[call-overload]
    cached = Cached(dataset, ItemCache(3, 1 << 20))
    for _ in range(3):
        found = cached[1]
        assert found.keys() == item.keys()
        for name, value in item.items():
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype and found[name].shape == value.shape
    assert dataset.reads == [0, 1, 0]
    assert (len(cached), cached.source(2), cached.class_names) == (3, "item 2", ("one",))


def test_what_is_cached_can_not_be_written_to() -> None:
    cached = Cached(Counted([5]), ItemCache(1, 1 << 20))
    cached[0]
    with pytest.raises(ValueError, match="read-only"):
        cached[0]["x"][0] = 1


@settings(deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=40), st.integers(0, 20_000))
def test_the_limit_is_never_passed_and_items_stay_right(sizes: list[int], limit: int) -> None:
    dataset = Counted(sizes)
    cache = ItemCache(len(sizes), limit)
    cached = Cached(dataset, cache)
    for _ in range(2):
        for index, item in enumerate(dataset.items):
            np.testing.assert_array_equal(cached[index]["x"], item["x"])
            assert cache.bytes_used <= limit
    kept = sum(reads == 1 for reads in dataset.reads)
    assert kept == len(cache) and all(reads in (1, 2) for reads in dataset.reads)
    held = sum(size for size, reads in zip(sizes, dataset.reads, strict=True) if reads == 1)
    assert held <= cache.bytes_used <= held + 400 * kept  # beside the arrays: alignment, names, dtypes


def test_no_limit_to_speak_of_keeps_all() -> None:
    dataset = Counted([100] * 50)
    cached = Cached(dataset, ItemCache(50, 1 << 20))
    for _ in range(3):
        for index in range(50):
            cached[index]
    assert dataset.reads == [1] * 50


def test_worker_processes_share_what_any_of_them_has_read(worker_data: Any) -> None:
    boxes = own_class(f"{worker_data}:Boxes")(40)
    cache = ItemCache(40, 1 << 20, writers=3)
    alone = Loader(boxes.first_epoch(), 8, seed=1, shuffle=True)
    loader = Loader(Cached(boxes.first_epoch(), cache), 8, seed=1, shuffle=True, workers=2)
    for epoch in range(3):
        for ours, theirs in zip(loader.epoch(epoch), alone.epoch(epoch), strict=True):
            assert {name: array.tobytes() for name, array in ours.items()} == {
                name: array.tobytes() for name, array in theirs.items()
            }
    loader.close()
    assert len(cache) == 40
    written = cache._used.tolist()
    assert written[0] == 0 and min(written[1:]) > 0  # by both, into arenas of their own
    np.testing.assert_array_equal(cache.get(5)["image"], boxes[5]["image"])  # type: ignore[index]

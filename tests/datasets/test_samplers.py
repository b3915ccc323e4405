"""Samplers: pure functions of (seed, epoch), with the statistics that they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer import TrainerError
from trainer.datasets import ByRank, BySize, ClassBalanced, InOrder, Loader, Shuffled, Weighted
from trainer.datasets.samplers import class_weights

LABELS = np.repeat([0, 1, 2, 5], [700, 200, 90, 10])
SIZES = np.random.default_rng(0).integers(1, 500, 1000)


@pytest.mark.parametrize(
    "sampler",
    [
        Shuffled(1000),
        Weighted(np.arange(1000)),
        ClassBalanced(LABELS),
        ByRank(Shuffled(1000), 1, 3),
        BySize(Shuffled(1000), SIZES, 16),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_the_order_is_a_function_of_seed_and_epoch(sampler: Any) -> None:
    order = sampler.order(1, 2)
    assert order.dtype == np.int64 and order.shape == (len(sampler),)
    np.testing.assert_array_equal(order, sampler.order(1, 2))
    assert not np.array_equal(order, sampler.order(1, 3))
    assert not np.array_equal(order, sampler.order(2, 2))


def test_draws_follow_the_weights() -> None:
    weights = np.array([0.0, 1, 2, 0, 5, 0.5, 0])
    samples = 100_000
    counts = np.bincount(Weighted(weights, samples).order(3, 1), minlength=7)
    expected = samples * weights / weights.sum()
    assert counts.sum() == samples and not counts[weights == 0].any()
    possible = weights > 0
    chi_squared = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    assert chi_squared < 16.27  # 3 degrees of freedom: one in a thousand is larger


def test_draws_of_one_epoch_do_not_depend_on_each_other() -> None:
    order = Weighted(np.ones(4), 100_000).order(0, 0)
    pairs = np.bincount(order[:-1] * 4 + order[1:], minlength=16)
    assert ((pairs - 6250.0) ** 2 / 6250).sum() < 37.7  # 15 degrees of freedom, one in a thousand


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, -1.0], [1.0, np.nan], [np.inf], [[1.0]]])
def test_weights_that_are_none_are_refused(weights: Any) -> None:
    with pytest.raises(TrainerError, match="invalid item weights"):
        Weighted(weights)


def test_every_class_comes_as_often_and_its_items_take_turns() -> None:
    order = ClassBalanced(LABELS, samples=402).order(0, 0)
    per_class = np.unique(LABELS[order], return_counts=True)
    assert per_class[0].tolist() == [0, 1, 2, 5] and sorted(per_class[1]) == [100, 100, 101, 101]
    per_item = np.bincount(order, minlength=1000)
    for label in (0, 1, 2, 5):
        times = per_item[label == LABELS]
        assert times.max() - times.min() <= 1
    first_half = np.bincount(LABELS[order[:201]], minlength=6)[[0, 1, 2, 5]]
    assert first_half.min() > 25  # 50 expected: classes are mixed


def test_which_classes_come_once_more_and_which_items_come_changes_with_the_epoch() -> None:
    sampler = ClassBalanced(LABELS, samples=42)
    more = {tuple(np.bincount(LABELS[sampler.order(0, epoch)])) for epoch in range(20)}
    assert len(more) > 1
    assert len({index for epoch in range(20) for index in sampler.order(0, epoch)}) > 100


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 7))
def test_ranks_share_the_work_without_a_rest(count: int, ranks: int) -> None:
    whole = Shuffled(count).order(5, 1)
    shares = [ByRank(Shuffled(count), rank, ranks).order(5, 1) for rank in range(ranks)]
    assert len({len(share) for share in shares}) == 1
    together = np.stack(shares, 1).reshape(-1)
    np.testing.assert_array_equal(together[:count], whole)
    np.testing.assert_array_equal(together, np.resize(whole, len(together)))


def test_batches_are_of_similar_size_and_in_random_order() -> None:
    order = BySize(Shuffled(1000), SIZES, 16, window=20).order(0, 0)
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    batches = SIZES[order[:992]].reshape(-1, 16)
    assert np.ptp(batches, axis=1).mean() < 40 < 400 < np.ptp(SIZES)  # sorted windows of 320 in 500: 25 on average
    assert abs(np.corrcoef(batches[:-1].mean(1), batches[1:].mean(1))[0, 1]) < 0.4
    assert not np.array_equal(order[:16], BySize(Shuffled(1000), SIZES, 16, window=20).order(0, 1)[:16])


def test_images_are_sorted_by_shape_before_area() -> None:
    sizes = np.tile([[480, 640], [640, 480], [100, 100], [500, 500]], (50, 1))
    batches = BySize(Shuffled(200), sizes, 10, window=20).order(0, 0).reshape(-1, 10)
    assert all(len(np.unique(sizes[batch], axis=0)) == 1 for batch in batches)


def test_filling_of_texts_shrinks_to_what_sorting_leaves() -> None:
    class Texts:
        class_names = ()

        def __len__(self) -> int:
            return len(SIZES)

        def __getitem__(self, index: int) -> dict[str, np.ndarray]:
            return {"tokens": np.ones(SIZES[index], np.int32)}

        def source(self, index: int) -> str:
            return str(index)

    def share_filled(sampler: Any) -> float:
        batches = list(Loader(Texts(), 16, sampler=sampler).epoch(0))
        return 1 - sum(batch["length"].sum() for batch in batches) / sum(batch["tokens"].size for batch in batches)

    assert share_filled(BySize(Shuffled(1000), SIZES, 16)) < 0.35 < share_filled(Shuffled(1000))


def test_class_weights_are_those_named() -> None:
    assert class_weights([0, 1, 2, 1], {1: 3.0}).tolist() == [1, 3, 1, 3]


def test_a_loader_takes_what_its_sampler_chooses() -> None:
    dataset = [{"value": np.int64(value)} for value in range(4)]

    class Four:
        class_names = ()

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> dict[str, Any]:
            return dataset[index]

        def source(self, index: int) -> str:
            return str(index)

    loader = Loader(Four(), 3, sampler=Weighted([0, 0, 1, 0], samples=7))
    batches = list(loader.epoch(0))
    assert loader.steps_per_epoch == len(batches) == 3
    assert [batch["value"].tolist() for batch in batches] == [[2] * 3] * 3
    assert batches[-1]["weight"].tolist() == [1, 0, 0]
    assert InOrder(3).order(0, 9).tolist() == [0, 1, 2]

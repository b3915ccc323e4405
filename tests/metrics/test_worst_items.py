"""The worst of many items against a sort of all of them, in any batches and order."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.metrics.worst_items import WorstItems

COUNT = 200


def scores_of(seed: int) -> np.ndarray:
    """Scores with many equal ones among them."""
    return np.random.default_rng(seed).integers(0, 40, COUNT).astype(np.float64)


def sorted_by_hand(scores: np.ndarray, limit: int) -> list[int]:
    return sorted(range(len(scores)), key=lambda item: (-scores[item], item))[:limit]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limit", [1, 8, COUNT, COUNT + 5])
def test_they_are_those_of_a_sort_in_any_split_order_and_merge(seed: int, limit: int) -> None:
    scores, random = scores_of(seed), np.random.default_rng(100 + seed)
    order = random.permutation(COUNT)
    found = [WorstItems(limit) for _ in range(3)]
    for batch in np.split(order, np.sort(random.integers(0, COUNT, 11))):
        at = int(random.integers(0, 3))
        found[at] = found[at].with_more(batch, scores[batch])
        assert len(found[at].items) <= limit
    worst = found[2]
    for other in found[:2]:
        worst = worst.with_more(other.items, other.scores)
    assert worst.items.tolist() == sorted_by_hand(scores, limit)
    assert worst.scores.tolist() == scores[worst.items].tolist()


def test_nan_is_worse_than_infinity() -> None:
    worst = WorstItems(3).with_more(np.arange(4), np.array([np.inf, 1.0, np.nan, np.inf]))
    assert worst.items.tolist() == [2, 0, 3]


def test_an_item_that_comes_twice_counts_once_by_its_worse_score() -> None:
    worst = WorstItems(2).with_more(np.array([5, 7, 5, 6]), np.array([1.0, 2.0, 3.0, 0.0]))
    assert (worst.items.tolist(), worst.scores.tolist()) == ([5, 7], [3.0, 2.0])

"""The draws of one item: the published generator, and what they do not depend on."""

from __future__ import annotations

import numpy as np

from trainer.datasets.order import item_bits
from trainer.datasets.transforms import ItemDraws


def test_the_bits_are_those_of_the_vectorized_generator() -> None:
    # tests/datasets/test_order.py holds that one to the published vectors.
    for seed, epoch, index, position in [(0, 0, 0, 0), (2**40 + 7, 3, 2**35 + 1, 5), (123, 2**31, 9, 60_000)]:
        draws = ItemDraws(seed, epoch, index, position)
        expected = item_bits(seed, epoch, np.array([index], np.uint64), 9, stream=256 + position)[0]
        assert [draws.bits() for _ in range(9)] == expected.tolist()


def test_positions_epochs_items_and_seeds_have_numbers_of_their_own() -> None:
    keys = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
    drawn = [tuple(draws.bits() for _ in range(4)) for draws in (ItemDraws(*key) for key in keys)]
    assert len(set(drawn)) == len(keys)


def test_draws_have_the_distributions_they_say() -> None:
    draws = [ItemDraws(0, 0, index) for index in range(8_000)]
    uniform = np.array([one.uniform(-1, 3) for one in draws])
    assert uniform.min() >= -1 and uniform.max() < 3
    np.testing.assert_allclose([uniform.mean(), uniform.var()], [1, 16 / 12], atol=0.06)
    ratios = np.log([one.log_uniform(0.5, 2) for one in draws])
    np.testing.assert_allclose([ratios.mean(), ratios.min(), ratios.max()], [0, -np.log(2), np.log(2)], atol=0.02)
    counts = np.bincount([one.integer(5) for one in draws])
    np.testing.assert_allclose(counts / len(draws), np.full(5, 0.2), atol=0.02)
    assert abs(np.mean([one.chance(0.3) for one in draws]) - 0.3) < 0.02
    beta = np.array([one.beta(0.5) for one in draws[:4000]])
    np.testing.assert_allclose([beta.mean(), beta.var()], [0.5, 0.125], atol=0.01)  # 1 / (4 * (2 * alpha + 1))


def test_certainties_draw_nothing() -> None:
    draws, other = ItemDraws(0, 0, 0), ItemDraws(0, 0, 0)
    assert draws.chance(1.0) and not draws.chance(0.0)
    assert draws.bits() == other.bits()

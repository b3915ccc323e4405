"""Random numbers of items: published vectors, and independence of what does not belong in the key."""

from __future__ import annotations

import numpy as np

from trainer.datasets import Draws
from trainer.datasets.order import item_bits, permutation


def test_an_items_bits_are_those_published_for_its_counter_and_key() -> None:
    # Random123's kat_vectors, philox4x32 10. The counter is the index (two words), the epoch, and stream and block.
    def bits(seed: int, epoch: int, index: int, stream: int, block: int) -> list[int]:
        drawn = item_bits(seed, epoch, np.array([7, index], np.uint64), 4 * block + 4, stream=stream)
        return drawn[1, -4:].tolist()

    assert bits(0, 0, 0, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    drawn = bits(0x299F31D0A4093822, 0x13198A2E, 0x85A308D3243F6A88, 0x0370, 0x7344)
    assert drawn == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def test_draws_belong_to_the_item_and_not_to_its_batch() -> None:
    together = Draws(7, 3, np.array([5, 900, 2])).uniform(6)
    alone = Draws(7, 3, np.array([900])).uniform(6)
    np.testing.assert_array_equal(together[1], alone[0])
    assert not np.array_equal(together[1], Draws(7, 4, np.array([900])).uniform(6)[0])
    assert not np.array_equal(together[1], Draws(8, 3, np.array([900])).uniform(6)[0])


def test_draws_are_uniform() -> None:
    values = Draws(0, 0, np.arange(20_000)).uniform(4, -1.0, 1.0)
    assert values.min() >= -1 and values.max() < 1
    np.testing.assert_allclose(values.mean(0), 0, atol=0.02)
    np.testing.assert_allclose(values.var(0), 1 / 3, atol=0.01)
    np.testing.assert_allclose(np.corrcoef(values.T), np.eye(4), atol=0.03)


def test_order_is_a_permutation_keyed_by_seed_and_epoch() -> None:
    order = permutation(1000, seed=1, epoch=2)
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    np.testing.assert_array_equal(order, permutation(1000, seed=1, epoch=2))
    assert not np.array_equal(order, permutation(1000, seed=1, epoch=3))
    assert not np.array_equal(order, permutation(1000, seed=2, epoch=2))
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 0.1
    assert permutation(0, seed=1, epoch=2).tolist() == []

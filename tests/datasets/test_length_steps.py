"""The lengths to which batches of texts are padded, against every partition."""

from itertools import combinations

import numpy as np
import pytest

from trainer.datasets.length_steps import length_steps


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_no_other_lengths_pad_less(seed, count):
    sizes = np.random.default_rng(seed).integers(1, 12, 40)

    def padded(steps):
        return np.array(steps)[np.searchsorted(steps, sizes)].sum()

    lengths = sorted(set(sizes.tolist()))
    best = min(padded((*chosen, lengths[-1])) for chosen in combinations(lengths[:-1], min(count, len(lengths)) - 1))
    found = length_steps(sizes, count)
    assert len(found) <= count and found[-1] == sizes.max() and list(found) == sorted(set(found))
    assert padded(found) == best


def test_many_lengths_are_grouped_first():
    sizes = np.random.default_rng(0).lognormal(7, 1, 20_000).astype(int) + 1
    found = length_steps(sizes, 5)
    assert found[-1] == sizes.max() and len(found) == 5

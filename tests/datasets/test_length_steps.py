"""The lengths to which batches of texts are padded, against every partition."""

from itertools import combinations

import numpy as np
import pytest

from trainer.configs import config_from
from trainer.datasets import loaders
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


def test_batches_of_200_lengths_have_five_shapes_and_little_padding():
    """200 batches of 200 different lengths, as training reads them."""
    sizes = np.random.default_rng(0).permutation(np.repeat(np.arange(20, 220), 16))

    class Texts:
        class_names, vocabulary, is_in_memory = (), (), True

        def __init__(self):
            self.sizes = sizes

        def __len__(self):
            return len(sizes)

        def __getitem__(self, index):
            return {"tokens": np.ones(sizes[index], np.int32)}

        def source(self, index):
            return str(index)

    data = {"batch_size": 16, "size_window": 50, "workers": 0}
    config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}})
    loader = loaders({"train": Texts()}, config)["train"]
    batches = [loader.batch(0, step) for step in range(200)]
    assert len({batch["tokens"].shape for batch in batches}) == 5
    assert sum(batch["tokens"].size for batch in batches) < 1.3 * sizes.sum()

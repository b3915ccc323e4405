"""The lengths to which batches of texts are padded, against every partition."""

from itertools import combinations

import numpy as np
import pytest

from trainer import TrainerError
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


class Texts:
    """Items of `counts` tokens each; `sizes` are what the data set tells of them."""

    class_names, vocabulary, is_in_memory = (), (), True

    def __init__(self, counts, sizes):
        self.counts, self.sizes = counts, sizes

    def __len__(self):
        return len(self.counts)

    def __getitem__(self, index):
        return {"tokens": np.ones(self.counts[index], np.int32)}

    def source(self, index):
        return str(index)


def loader_of(dataset, **data):
    config = config_from({"data": {"workers": 0, **data}, "optimizer": {"name": "sgd"}, "train": {"steps": 1}})
    return loaders({"train": dataset}, config)["train"]


@pytest.mark.parametrize("sizes", [None, np.full((3, 2), 5)])
def test_without_the_numbers_of_tokens_batches_are_padded_to_powers_of_two(sizes):
    """[N, 2] are the sizes of images next to the texts."""
    texts = Texts([3, 9, 20], sizes)
    assert loader_of(texts, batch_size=3).batch(0, 0)["tokens"].shape == (3, 32)
    with pytest.raises(TrainerError, match=r"data.length_steps: the lengths can't be chosen"):
        loader_of(texts, length_steps=2)


def test_batches_of_200_lengths_have_five_shapes_and_little_padding():
    """200 batches of 200 different lengths, as training reads them."""
    sizes = np.random.default_rng(0).permutation(np.repeat(np.arange(20, 220), 16))
    loader = loader_of(Texts(sizes, sizes), batch_size=16, size_window=50)
    batches = [loader.batch(0, step) for step in range(200)]
    assert len({batch["tokens"].shape for batch in batches}) == 5
    assert sum(batch["tokens"].size for batch in batches) < 1.3 * sizes.sum()

"""Chooses the items of an epoch and their order: pure functions of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trainer import TrainerError
from trainer.datasets.order import BATCHES, CLASSES, SAMPLES, item_bits, permutation


class Sampler(Protocol):
    """Chooses the items of an epoch; the same number in every epoch."""

    def __len__(self) -> int: ...

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """int64 [len(self)]: the indices of the items."""


@dataclass(frozen=True, slots=True)
class InOrder:
    """Every item once, in the order of the data set."""

    length: int

    def __len__(self) -> int:
        return self.length

    def order(self, seed: int, epoch: int) -> np.ndarray:
        return np.arange(self.length)


@dataclass(frozen=True, slots=True)
class Shuffled:
    """Every item once, in a random order per epoch."""

    length: int

    def __len__(self) -> int:
        return self.length

    def order(self, seed: int, epoch: int) -> np.ndarray:
        return permutation(self.length, seed=seed, epoch=epoch)


@dataclass(frozen=True, slots=True)
class FirstEpoch:
    """The first `count` items of another sampler's first epoch, in the same order in every epoch."""

    sampler: Sampler
    count: int

    def __len__(self) -> int:
        return min(self.count, len(self.sampler))

    def order(self, seed: int, epoch: int) -> np.ndarray:
        return self.sampler.order(seed, 0)[: len(self)]


class Weighted:
    """Draws `samples` items (default: the number of items) with replacement, in proportion to their weights.

    An item drawn twice in an epoch gets the same augmentation twice, because it is keyed by (seed, epoch, item).

    Raises:
        TrainerError: a weight is negative or not finite, or all are 0.
    """

    def __init__(self, weights: Sequence[float] | np.ndarray, samples: int | None = None) -> None:
        weights = np.asarray(weights, np.float64)
        if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise TrainerError(
                "invalid item weights",
                found=f"{weights.shape} from {weights.min(initial=np.inf)} to {weights.max(initial=-np.inf)}",
                expected="a number for each item, all at least 0, one above 0",
            )
        self._upper = np.cumsum(weights)
        self._samples = len(weights) if samples is None else samples

    def __len__(self) -> int:
        return self._samples

    def order(self, seed: int, epoch: int) -> np.ndarray:
        bits = item_bits(seed, epoch, np.arange(self._samples), 2, stream=SAMPLES).astype(np.uint64)
        unit = ((bits[:, 0] << np.uint64(32) | bits[:, 1]) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        drawn = np.searchsorted(self._upper, unit * self._upper[-1], side="right")
        last = np.searchsorted(
            self._upper, self._upper[-1]
        )  # rounding may select an item after the last one with a weight
        return np.minimum(drawn, last)


class ClassBalanced:
    """Draws `samples` items (default: the number of items), every class equally often up to one item.

    No item repeats before all others of its class were drawn.

    Args:
        labels: the class of each item.
        samples: items per epoch.
    """

    def __init__(self, labels: Sequence[int] | np.ndarray, samples: int | None = None) -> None:
        labels = np.asarray(labels, np.int64)
        order = np.argsort(labels, kind="stable")
        self._members = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
        self._samples = len(labels) if samples is None else samples

    def __len__(self) -> int:
        return self._samples

    def order(self, seed: int, epoch: int) -> np.ndarray:
        quota, rest = divmod(self._samples, len(self._members))
        with_one_more = set(permutation(len(self._members), seed=seed, epoch=epoch, stream=CLASSES)[:rest].tolist())
        rank = np.argsort(permutation(sum(map(len, self._members)), seed=seed, epoch=epoch, stream=SAMPLES))
        chosen = []
        for number, members in enumerate(self._members):
            shuffled = members[np.argsort(rank[members])]
            chosen.append(np.resize(shuffled, quota + (number in with_one_more)))
        together = np.concatenate(chosen)
        return together[permutation(self._samples, seed=seed, epoch=epoch)]


@dataclass(frozen=True, slots=True)
class ByRank:
    """One of `ranks` equal parts of another sampler's items; together the parts contain all of them.

    If the number of items is not divisible by `ranks`, the first items repeat in the last parts.
    """

    sampler: Sampler
    rank: int
    ranks: int

    def __len__(self) -> int:
        return -(-len(self.sampler) // self.ranks)

    def order(self, seed: int, epoch: int) -> np.ndarray:
        places = np.arange(len(self)) * self.ranks + self.rank
        return np.take(self.sampler.order(seed, epoch), places, mode="wrap")


class BySize:
    """The items of another sampler, reordered so that the items of a batch have similar sizes.

    Items are sorted within windows of several batches, and batches come in random order. This needs little padding, and
    batches still differ between epochs.

    Args:
        sampler: chooses the items.
        sizes: size of each item of the data set: [N] (tokens) or [N, 2] (height and width: sorted by shape, then area).
        batch_size: the loader's batch size.
        window: number of batches per window.
    """

    def __init__(self, sampler: Sampler, sizes: Sequence[int] | np.ndarray, batch_size: int, window: int = 50) -> None:
        self._sampler, self._batch_size, self._window = sampler, batch_size, window
        self._size = _one_number(np.asarray(sizes))

    def __len__(self) -> int:
        return len(self._sampler)

    def order(self, seed: int, epoch: int) -> np.ndarray:
        order = self._sampler.order(seed, epoch)
        window = self._window * self._batch_size
        parts = [order[first : first + window] for first in range(0, len(order), window)]
        order = np.concatenate([part[np.argsort(self._size[part], kind="stable")] for part in parts])
        whole = len(order) // self._batch_size
        batches = order[: whole * self._batch_size].reshape(whole, self._batch_size)
        shuffled = batches[permutation(whole, seed=seed, epoch=epoch, stream=BATCHES)]
        return np.concatenate([shuffled.reshape(-1), order[whole * self._batch_size :]])


def class_weights(labels: Sequence[int] | np.ndarray, weights: Mapping[int, float]) -> np.ndarray:
    """float64 [N]: the weight of each item's class; 1 for classes without an entry in `weights`."""
    labels = np.asarray(labels, np.int64)
    found = np.ones(len(labels))
    for label, weight in weights.items():
        found[labels == label] = weight
    return found


_AREA_STEPS = 1e-9


def _one_number(sizes: np.ndarray) -> np.ndarray:
    """Sizes as sort keys; images are sorted by their aspect ratio in half octaves, then by area."""
    if sizes.ndim == 1:
        return sizes
    height, width = np.maximum(sizes.astype(np.float64), 1).T
    return np.round(2 * np.log2(width / height)) + _AREA_STEPS * height * width

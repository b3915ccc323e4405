"""Divides a data set into splits by fractions, where the reader itself decides what stays together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import Dataset
from trainer.datasets.order import SPLITS, item_bits
from trainer.datasets.split_words import TRAIN


@runtime_checkable
class Divided(Protocol):
    """A data set that divides itself."""

    def divided(self) -> dict[str, Dataset]:
        """The data set of each split, train included."""


@dataclass(frozen=True)
class Division:
    """The fractions of the other splits; train keeps the rest.

    Args:
        fractions: by split, each between 0 and 1, with a sum below 1.
        by: "order": train comes first, then the other splits; "seed": a random choice.
        seed: seed of the random choice.
    """

    fractions: Mapping[str, float] = field(default_factory=dict)
    by: Literal["seed", "order"] = "order"
    seed: int = 0

    def shares(self) -> dict[str, float]:
        """The fraction of each split, train first."""
        return {TRAIN: 1 - sum(self.fractions.values()), **self.fractions}

    def ranges(self, count: int) -> dict[str, range]:
        """Consecutive ranges of `count` elements, in the order of the splits."""
        edges = [round(count * share) for share in np.cumsum([0.0, *self.shares().values()])]
        return {split: range(*pair) for split, pair in zip(self.shares(), pairwise(edges), strict=True)}

    def items(self, count: int) -> dict[str, np.ndarray]:
        """The indices of each split among `count` items, sorted."""
        order = np.arange(count)
        if self.by == "seed":
            order = np.argsort(item_bits(self.seed, 0, order, 1, stream=SPLITS)[:, 0], kind="stable")
        found = {split: np.sort(order[part.start : part.stop]) for split, part in self.ranges(count).items()}
        self.check({split: len(part) for split, part in found.items()})
        return found

    def stratified(self, texts: Sequence[str], labels: Sequence[int] | np.ndarray) -> dict[str, np.ndarray]:
        """The indices of each split, sorted: each class is divided in the same proportions, and all items with the same
        text are in one split.

        A text with several classes is assigned to its first class. `by` "order" keeps the order of the items.
        """
        numbers: dict[str, int] = {}
        group = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
        first = np.unique(group, return_index=True)[1]
        strata = np.asarray(labels)[first]
        keys = item_bits(self.seed, 0, np.arange(len(first)), 1, stream=SPLITS)[:, 0] if self.by == "seed" else first
        chosen: dict[str, list[np.ndarray]] = {split: [] for split in self.shares()}
        for stratum in np.unique(strata):
            members = np.flatnonzero(strata == stratum)
            members = members[np.argsort(keys[members], kind="stable")]
            for split, part in self.ranges(len(members)).items():
                chosen[split].append(members[part.start : part.stop])
        found = {split: np.flatnonzero(np.isin(group, np.concatenate(parts))) for split, parts in chosen.items()}
        self.check({split: len(part) for split, part in found.items()})
        return found

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raises `TrainerError` if a split has no items."""
        if min(sizes.values()) < 1:
            raise TrainerError(
                "a split has no items",
                where="data.reader.fractions",
                found=", ".join(f"{split}: {size}" for split, size in sizes.items())
                + f" of {sum(sizes.values())} items",
            )

"""What a data set is, and the two that everything else is built from: arrays in memory, and a part of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from trainer import TrainerError
from trainer.datasets.collate import collate, row_of
from trainer.datasets.fields import FIELDS, OBJECTS, TOKENS, Batch, Item


@runtime_checkable
class Dataset(Protocol):
    """Items by number, each a dictionary of arrays; `trainer.datasets.fields` says what is meant by a name."""

    @property
    def class_names(self) -> Sequence[str]:
        """The name of each class, in the order of the labels; empty where there are none."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Item:
        """Item `index`; raises `TrainerError` for one that can't be used (see the loader's `on_error`)."""

    def source(self, index: int) -> str:
        """Where item `index` comes from, in words that lead a person to it."""


@runtime_checkable
class BatchedDataset(Dataset, Protocol):
    """A data set that can also make a batch of many items at once."""

    def take(self, indices: np.ndarray) -> Batch:
        """The items `indices` stacked along a new first axis."""


class ArrayDataset:
    """Arrays in memory whose rows are items: `ArrayDataset({"image": images, "label": labels})`.

    The arrays are laid out as in a batch: images are [N, C, H, W], their items [H, W, C].

    Raises:
        TrainerError: the arrays differ in length, or one is of a field of which items have different numbers of rows.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], *, class_names: Sequence[str] = (), name: str = "array"
    ) -> None:
        lengths = {key: len(array) for key, array in arrays.items()}
        if len(set(lengths.values())) != 1:
            raise TrainerError(
                f"the arrays of {name} have different numbers of items",
                found=", ".join(f"{key}: {length}" for key, length in lengths.items()) or "no arrays",
                expected="at least one array, all of the same length",
            )
        ragged = [key for key in arrays if key in FIELDS and {OBJECTS, TOKENS} & set(FIELDS[key].axes)]
        if ragged:
            raise TrainerError(
                f"an array can't hold the field {ragged[0]!r}, of which every item has as many rows as it needs",
                where=name,
                hint="Write a class with __len__, __getitem__, class_names and source that makes the items.",
            )
        self.arrays = dict(arrays)
        self.class_names = tuple(class_names)
        self.name = name

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, index: int) -> Item:
        return row_of(self.arrays, index)

    def take(self, indices: np.ndarray) -> Batch:
        return {key: array[indices] for key, array in self.arrays.items()}

    def source(self, index: int) -> str:
        return f"{self.name}[{index}]"


class Wrapped:
    """Another data set's items, changed by a subclass in `__getitem__`; one for each, unless it says otherwise."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    @property
    def class_names(self) -> Sequence[str]:
        return self.dataset.class_names

    def __len__(self) -> int:
        return len(self.dataset)

    def source(self, index: int) -> str:
        return self.dataset.source(index)


class Subset(Wrapped):
    """The items `indices` of another data set, under numbers of their own."""

    def __init__(self, dataset: Dataset, indices: Sequence[int] | np.ndarray) -> None:
        super().__init__(dataset)
        self.indices = np.asarray(indices, np.int64)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Item:
        return self.dataset[int(self.indices[index])]

    def take(self, indices: np.ndarray) -> Batch:
        return take(self.dataset, self.indices[indices])

    def source(self, index: int) -> str:
        return self.dataset.source(int(self.indices[index]))


def split(dataset: Dataset, sizes: Mapping[str, int]) -> dict[str, Subset]:
    """Consecutive parts of `dataset` in the order of `sizes`; they must cover every item.

    Raises `TrainerError` where a size is not positive or the sizes don't add up.
    """
    if min(sizes.values(), default=0) < 1 or sum(sizes.values()) != len(dataset):
        raise TrainerError(
            "the split does not fit the data",
            found=", ".join(f"{name}: {size}" for name, size in sizes.items()) + f" of {len(dataset)} items",
            expected="at least one item in every part, and every item in one",
        )
    ends = np.cumsum(list(sizes.values()))
    return {
        name: Subset(dataset, np.arange(end - size, end)) for (name, size), end in zip(sizes.items(), ends, strict=True)
    }


def gives_batches(dataset: Dataset) -> bool:
    """Whether it can make batches at once: a part of another as far as the other can."""
    return gives_batches(dataset.dataset) if isinstance(dataset, Subset) else isinstance(dataset, BatchedDataset)


def take(dataset: Dataset, indices: np.ndarray) -> Batch:
    """The items `indices` as one batch; at once where the data set can, else item by item."""
    if gives_batches(dataset):
        return dataset.take(indices)  # type: ignore[attr-defined]
    return collate([dataset[int(index)] for index in indices], where=lambda row: dataset.source(int(indices[row])))

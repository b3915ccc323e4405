"""The data set protocol, and two basic data sets: arrays in memory, and a subset of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from trainer import TrainerError
from trainer.datasets.collate import collate, row_of
from trainer.datasets.fields import FIELDS, OBJECTS, TOKENS, Batch, Item

if TYPE_CHECKING:
    from trainer.datasets.vocabulary import Vocabulary


@runtime_checkable
class Dataset(Protocol):
    """Items by index, each a dictionary of arrays; `trainer.datasets.fields` defines the field names."""

    @property
    def class_names(self) -> Sequence[str]:
        """The name of each class, in the order of the labels; empty without classes."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Item:
        """Item `index`; raises `TrainerError` for an unusable item (see the loader's `on_error`)."""

    def source(self, index: int) -> str:
        """The origin of item `index` as text, such as a path."""


@runtime_checkable
class BatchedDataset(Dataset, Protocol):
    """A data set that can also return many items as one batch."""

    def take(self, indices: np.ndarray) -> Batch:
        """The items `indices` stacked along a new first axis."""


class ArrayDataset:
    """Arrays in memory whose rows are items: `ArrayDataset({"image": images, "label": labels})`.

    The arrays are laid out as in a batch: images are [N, C, H, W], their items [H, W, C].

    Raises:
        TrainerError: the arrays differ in length, or a field has a variable number of rows per item.
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
                f"an array can't hold the field {ragged[0]!r}, whose number of rows differs between items",
                where=name,
                hint="Write a data set class with __len__, __getitem__, class_names and source.",
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
    """Wraps a data set; a subclass changes the items in `__getitem__`."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    @property
    def class_names(self) -> Sequence[str]:
        return self.dataset.class_names

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary of a data set of texts; None for other data sets."""
        return getattr(self.dataset, "vocabulary", None)

    def __len__(self) -> int:
        return len(self.dataset)

    def source(self, index: int) -> str:
        return self.dataset.source(index)


class Subset(Wrapped):
    """A subset: the items `indices` of another data set."""

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
    """Consecutive subsets of `dataset` with these sizes, which must cover all items.

    Raises `TrainerError` if a size is not positive or the sizes don't add up.
    """
    if min(sizes.values(), default=0) < 1 or sum(sizes.values()) != len(dataset):
        raise TrainerError(
            "the sizes of the splits don't add up to the data set",
            found=", ".join(f"{name}: {size}" for name, size in sizes.items()) + f" of {len(dataset)} items",
            expected="at least one item per split, and every item in one split",
        )
    ends = np.cumsum(list(sizes.values()))
    return {
        name: Subset(dataset, np.arange(end - size, end)) for (name, size), end in zip(sizes.items(), ends, strict=True)
    }


def gives_batches(dataset: Dataset) -> bool:
    """Whether a data set can return whole batches; a subset can if its data set can."""
    return gives_batches(dataset.dataset) if isinstance(dataset, Subset) else isinstance(dataset, BatchedDataset)


def is_in_memory(dataset: Dataset) -> bool:
    """Whether items are cheap enough to load in threads: the data set returns batches, or its attribute
    `is_in_memory` is true.
    """
    if isinstance(dataset, Subset):
        return is_in_memory(dataset.dataset)
    return gives_batches(dataset) or bool(getattr(dataset, "is_in_memory", False))


def take(dataset: Dataset, indices: np.ndarray) -> Batch:
    """The items `indices` as one batch: directly if supported, otherwise item by item."""
    if gives_batches(dataset):
        return dataset.take(indices)  # type: ignore[attr-defined]
    return collate([dataset[int(index)] for index in indices], where=lambda row: dataset.source(int(indices[row])))

"""Properties of items that are known without reading them: classes, sizes, numbers of objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import ArrayDataset, Dataset, Subset

if TYPE_CHECKING:
    from trainer.datasets.scaling import Scaling
    from trainer.datasets.vocabulary import Vocabulary

_MOST_LOOKED_AT = 16
"""Number of items to try if the first ones are unusable."""


def labels_of(dataset: Dataset) -> np.ndarray:
    """int64 [N]: the class of each item, from the attribute `labels` of the data set or of the wrapped one.

    Raises:
        TrainerError: the data set does not have them.
    """
    return _required(dataset, "labels", "label", "the class of each item")


def sizes_of(dataset: Dataset) -> np.ndarray:
    """[N, 2] (image height, width) or [N] (tokens), from the attribute `sizes` of the data set or of the wrapped one.

    Raises:
        TrainerError: the data set does not have them.
    """
    return _required(dataset, "sizes", "size", "the size of each item")


def token_lengths(dataset: Dataset) -> np.ndarray | None:
    """int64 [N]: the number of tokens of each item; None if it is not known without reading the items."""
    found = _column(dataset, "sizes", "size")
    return found if found is not None and found.ndim == 1 else None  # [N, 2]: sizes of images in items with texts


def vocabulary_of(dataset: Any) -> Vocabulary | None:
    """The vocabulary of a data set of texts, or of the data set that it wraps; None for other data sets."""
    found: Vocabulary | None = _attribute(dataset, "vocabulary")
    return found


def scaling_of(dataset: Any) -> Scaling | None:
    """The scaling of a data set of series, or of the data set that it wraps; None for other data sets."""
    found: Scaling | None = _attribute(dataset, "scaling")
    return found


def _attribute(dataset: Any, name: str) -> Any:
    found = getattr(dataset, name, None)
    return _attribute(dataset.dataset, name) if found is None and hasattr(dataset, "dataset") else found


def most_objects(datasets: Iterable[Dataset]) -> int | None:
    """The maximum number of objects per item, from `object_counts`; None if a data set lacks them."""
    counts = [_column(dataset, "object_counts", "") for dataset in datasets]
    known = [column for column in counts if column is not None]
    return max(int(column.max(initial=0)) for column in known) if known and len(known) == len(counts) else None


def require_fields(dataset: Dataset, fields: Iterable[str], split: str) -> None:
    """Checks on the first usable item that a data set has the fields that a task needs.

    Raises:
        TrainerError: a field is missing.
    """
    for index in range(min(len(dataset), _MOST_LOOKED_AT)):
        try:
            item = dataset[index]
        except TrainerError:
            continue
        missing = [name for name in fields if name not in item]
        if missing:
            raise TrainerError(
                f"the task needs the fields {', '.join(missing)}, which the data doesn't have",
                where=f"{split}: {dataset.source(index)}",
                found=", ".join(item),
                expected=", ".join(fields),
                hint="`trainer list` shows which recipe fits which data; `data.reader` sets another format.",
            )
        return


def _column(dataset: Any, attribute: str, field: str) -> np.ndarray | None:
    if isinstance(dataset, Subset):
        whole = _column(dataset.dataset, attribute, field)
        return None if whole is None else whole[dataset.indices]
    if isinstance(dataset, ArrayDataset) and field in dataset.arrays:
        return np.asarray(dataset.arrays[field])
    if hasattr(dataset, attribute):
        own = getattr(dataset, attribute)
        return None if own is None else np.asarray(own)
    return _column(dataset.dataset, attribute, field) if hasattr(dataset, "dataset") else None


def _required(dataset: Any, attribute: str, field: str, what: str) -> np.ndarray:
    found = _column(dataset, attribute, field)
    if found is not None:
        return found
    raise TrainerError(
        f"the data set can't provide {what} without reading it",
        found=type(dataset).__name__,
        expected=f"a data set with the attribute {attribute!r}",
        hint=f"Give your data set an array {attribute!r} with one row per item.",
    )


def category_ids_of(dataset: Dataset) -> list[int] | None:
    """The category ids of the classes in the data set's files, in the order of the labels; None if they have no ids."""
    if hasattr(dataset, "category_ids"):
        return [int(number) for number in dataset.category_ids]
    return category_ids_of(dataset.dataset) if hasattr(dataset, "dataset") else None

"""The loaders of a task's splits, as the config's `data:` section asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer.datasets.dataset import Dataset
from trainer.datasets.loader import BatchTransform, Loader

if TYPE_CHECKING:
    from trainer.configs import RunConfig

TRAIN = "train"


def loaders(
    splits: Mapping[str, Dataset], config: RunConfig, *, augmentation: BatchTransform | None = None
) -> dict[str, Loader]:
    """A loader for each of `splits`: "train" shuffled and augmented, the others in order and as they are."""
    data = config.data
    return {
        name: Loader(
            dataset,
            data.batch_size if name == TRAIN else data.valid_batch_size or data.batch_size,
            config.seed,
            shuffle=data.shuffle and name == TRAIN,
            transform=augmentation if name == TRAIN else None,
            on_error=data.on_error,
            workers=data.workers,
        )
        for name, dataset in splits.items()
    }

"""Repeats images with the rarer appearance of nuclei, dark on bright or bright on dark, in training."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from trainer import TrainerError
from trainer.datasets import Dataset, Subset
from trainer.datasets.gray import is_bright
from trainer.datasets.readers import Opening


def balanced(dataset: Dataset, times: int, opening: Opening) -> Subset:
    """The items of `dataset`, with those of the rarer appearance repeated; random transforms change every repetition.

    An unreadable item appears once; the loader reports it.
    """
    bright = np.zeros(len(dataset), np.int64)  # 1 is bright, -1 dark
    for index in range(len(dataset)):
        with suppress(TrainerError):
            bright[index] = 1 if is_bright(dataset[index]["image"]) else -1
        if opening.progress is not None:
            opening.progress(index + 1, len(dataset))
    rarer = 1 if bright.sum() <= 0 else -1
    return Subset(dataset, np.repeat(np.arange(len(dataset)), np.where(bright == rarer, times, 1)))

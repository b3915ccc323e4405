"""Data sets and how they become batches: readers, parts, augmentation, the loader."""

from trainer.datasets.dataset import ArrayDataset, Batch, BatchedDataset, Dataset, Item, Subset, split
from trainer.datasets.idx import read_idx, read_idx_pair
from trainer.datasets.loader import BadItem, BatchTransform, EpochBatches, Loader, Position
from trainer.datasets.order import Draws, epoch_order
from trainer.datasets.shift import RandomShift
from trainer.datasets.splits import loaders

__all__ = [
    "ArrayDataset",
    "BadItem",
    "Batch",
    "BatchTransform",
    "BatchedDataset",
    "Dataset",
    "Draws",
    "EpochBatches",
    "Item",
    "Loader",
    "Position",
    "RandomShift",
    "Subset",
    "epoch_order",
    "loaders",
    "read_idx",
    "read_idx_pair",
    "split",
]

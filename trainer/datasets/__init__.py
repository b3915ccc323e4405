"""Data sets and how they become batches: readers, parts, augmentation, the loader."""

from trainer.datasets.affine import RandomAffine
from trainer.datasets.dataset import ArrayDataset, Batch, BatchedDataset, Dataset, Item, Subset, split
from trainer.datasets.idx import read_idx, read_idx_pair
from trainer.datasets.loader import BadItem, BatchTransform, EpochBatches, Loader, Position
from trainer.datasets.order import Draws, epoch_order

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
    "RandomAffine",
    "Subset",
    "epoch_order",
    "read_idx",
    "read_idx_pair",
    "split",
]

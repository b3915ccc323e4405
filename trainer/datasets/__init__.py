"""Data sets and how they become batches: readers, parts, augmentation, the loader."""

from trainer.datasets.collate import Collation, collate
from trainer.datasets.dataset import ArrayDataset, BatchedDataset, Dataset, Subset, split
from trainer.datasets.fields import FIELDS, Batch, Field, Item, check_item
from trainer.datasets.idx import read_idx, read_idx_pair
from trainer.datasets.loader import BadItem, BatchTransform, EpochBatches, Loader, Position
from trainer.datasets.order import Draws, epoch_order
from trainer.datasets.shift import RandomShift
from trainer.datasets.splits import loaders
from trainer.datasets.transforms import ItemDraws, Pipeline, Transform

__all__ = [
    "FIELDS",
    "ArrayDataset",
    "BadItem",
    "Batch",
    "BatchTransform",
    "BatchedDataset",
    "Collation",
    "Dataset",
    "Draws",
    "EpochBatches",
    "Field",
    "Item",
    "ItemDraws",
    "Loader",
    "Pipeline",
    "Position",
    "RandomShift",
    "Subset",
    "Transform",
    "check_item",
    "collate",
    "epoch_order",
    "loaders",
    "read_idx",
    "read_idx_pair",
    "split",
]

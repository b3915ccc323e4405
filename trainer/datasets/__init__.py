"""Data sets and batches: readers, subsets, augmentation, the loader."""

from trainer.datasets.cache import Cached, ItemCache
from trainer.datasets.collate import Collation, collate
from trainer.datasets.dataset import ArrayDataset, BatchedDataset, Dataset, Subset, Wrapped, split
from trainer.datasets.fields import FIELDS, Batch, Field, Item, check_item
from trainer.datasets.idx import read_idx, read_idx_pair
from trainer.datasets.item_properties import scaling_of, vocabulary_of
from trainer.datasets.loader import BadItem, EpochBatches, Loader
from trainer.datasets.making import BatchTransform, EpochDataset
from trainer.datasets.order import Draws
from trainer.datasets.planning import Position
from trainer.datasets.samplers import ByRank, BySize, ClassBalanced, InOrder, Sampler, Shuffled, Weighted
from trainer.datasets.scaling import Scaling
from trainer.datasets.shift import RandomShift
from trainer.datasets.splits import loaders
from trainer.datasets.transforms import ItemDraws, Pipeline, Transform
from trainer.datasets.vocabulary import Vocabulary

__all__ = [
    "FIELDS",
    "ArrayDataset",
    "BadItem",
    "Batch",
    "BatchTransform",
    "BatchedDataset",
    "ByRank",
    "BySize",
    "Cached",
    "ClassBalanced",
    "Collation",
    "Dataset",
    "Draws",
    "EpochBatches",
    "EpochDataset",
    "Field",
    "InOrder",
    "Item",
    "ItemCache",
    "ItemDraws",
    "Loader",
    "Pipeline",
    "Position",
    "RandomShift",
    "Sampler",
    "Scaling",
    "Shuffled",
    "Subset",
    "Transform",
    "Vocabulary",
    "Weighted",
    "Wrapped",
    "check_item",
    "collate",
    "loaders",
    "read_idx",
    "read_idx_pair",
    "scaling_of",
    "split",
    "vocabulary_of",
]

"""Readers: data sets in common formats, with lazy access by index."""

from trainer.datasets.readers.coco_index import CocoIndex, index_coco
from trainer.datasets.readers.opening import Opening, Progress
from trainer.datasets.readers.reading import (
    detecting,
    has_files,
    is_read,
    learned_settings,
    mark_read,
    read,
    read_detected,
    read_splits,
)

__all__ = [
    "CocoIndex",
    "Opening",
    "Progress",
    "detecting",
    "has_files",
    "index_coco",
    "is_read",
    "learned_settings",
    "mark_read",
    "read",
    "read_detected",
    "read_splits",
]

"""Which layout a folder of data has: detected once, by one table, for inspection, training and conversion alike."""

from trainer.datasets.layouts.detect import detect, unread_images
from trainer.datasets.layouts.layout import Layout, Part

__all__ = ["Layout", "Part", "detect", "unread_images"]

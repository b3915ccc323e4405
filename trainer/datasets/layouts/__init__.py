"""Detects the layout of a data folder, for inspection, training and conversion."""

from trainer.datasets.layouts.detect import detect, unread_images
from trainer.datasets.layouts.layout import Layout, Part

__all__ = ["Layout", "Part", "detect", "unread_images"]

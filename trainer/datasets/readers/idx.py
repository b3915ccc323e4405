"""IDX files of images and labels, as in MNIST."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainer.datasets.dataset import ArrayDataset
from trainer.datasets.idx import read_idx_pair
from trainer.datasets.readers.opening import Opening

_DIGITS = tuple("0123456789")


def idx_images(
    root: Path,
    *,
    images: str,
    labels: str,
    classes: Sequence[str] = _DIGITS,
    opening: Opening = Opening(),  # noqa: B008 - frozen
) -> ArrayDataset:
    """Items {image [H, W, 1], label} of two files relative to `root`. Raises `TrainerError` as `read_idx_pair` does."""
    return read_idx_pair(root / images, root / labels, class_names=classes)

"""IDX files and texts."""

from __future__ import annotations

from trainer.datasets.idx import idx_count
from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, stem_of
from trainer.datasets.split_words import TRAIN, in_order, split_named, split_within

_IMAGES, _LABELS = "images-idx3", "labels-idx1"


def idx(listing: Listing) -> Layout | None:
    """Files of images and labels in the MNIST family; t10k is the test split if a train split exists."""
    found: dict[str, tuple[str, str]] = {}
    for file in listing.folders.get("", ()):
        labels = file.replace(_IMAGES, _LABELS)
        if _IMAGES in file and listing.has(labels):
            found["test" if file.startswith("t10k") else split_within(file) or TRAIN] = file, labels
    if len(found) == 1:
        found = {TRAIN: next(iter(found.values()))}
    parts = {split: Part({"name": "idx", "images": found[split][0], "labels": found[split][1]},
                         idx_count(listing.root / found[split][0])) for split in in_order(found)}  # fmt: skip
    return Layout("IDX", parts, ", ".join(images for images, _ in found.values())) if parts else None


def texts(listing: Listing) -> Layout | None:
    """One text file, or one per split."""
    files = _texts(listing)
    named = {split: file for file in files if (split := split_named(stem_of(file)))}
    if len(files) == 1:
        named = {TRAIN: files[0]}
    if not files or len(named) != len(files):
        return None
    parts = {split: Part({"name": "text", "file": named[split]}, None) for split in in_order(named)}
    return Layout("text", parts, ", ".join(files))


def text_classes(listing: Listing) -> Layout | None:
    """A text file per class."""
    files = _texts(listing)
    if len(files) < 2 or any(split_named(stem_of(file)) for file in files):
        return None
    return Layout("texts with classes", {TRAIN: Part({"name": "text_classes"}, None)}, ", ".join(files[:8]))


def _texts(listing: Listing) -> list[str]:
    """The text files of a folder without other readable files."""
    files = listing.files("", ".txt")
    has_others = listing.folders_in("") or listing.images_below("") or listing.files("", ".xml", ".json", ".csv")
    return [] if has_others else files

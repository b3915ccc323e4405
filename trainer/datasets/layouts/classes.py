"""Image classification: a folder of images per class."""

from __future__ import annotations

from trainer import TrainerError
from trainer.datasets.layouts.layout import Layout, Part
from trainer.datasets.layouts.listing import Listing, name_of
from trainer.datasets.layouts.masks import IMAGES, MASKS
from trainer.datasets.layouts.pairs import SIDES, share_names
from trainer.datasets.split_words import TRAIN, in_order, split_named

_OTHER_MEANINGS = {*IMAGES, *MASKS, "labels", "annotations", "pairs"}
"""Names of image folders that are not classes."""


def class_folders(listing: Listing) -> Layout | None:
    """A folder per class, in the folder itself or in a folder per split.

    Raises:
        TrainerError: images lie next to the class folders of a split, or a split has two folders.
    """
    named: dict[str, str] = {}
    for place in listing.folders_in(""):
        split = split_named(place)
        if split is not None and _classes(listing, place):
            if split in named:
                found = f"{named[split]} and {place}"
                raise TrainerError("two folders for one split", where=str(listing.root), found=found)
            named[split] = place
    if not named:
        classes = _classes(listing, "")
        if len(classes) < 2 or listing.images("") or any(split_named(name) for name in classes):
            return None
        if any({name.lower() for name in classes} == set(pair) and share_names(listing, classes) for pair in SIDES):
            return None
        part = Part({"name": "image_folder", "images": "."}, len(listing.images_below("")))
        return Layout("class folders", {TRAIN: part}, ", ".join(classes[:8]))
    stray = [file for place in named.values() for file in listing.images(place)]
    stray += [file for place in _classes(listing, "") if place not in named.values() and split_named(place) is None
              for file in listing.images_below(place)]  # fmt: skip
    if stray:
        raise TrainerError(
            "images outside of the class folders",
            where=str(listing.root),
            found=f"{stray[0]} and {len(stray) - 1} more",
            expected="SPLIT/CLASS/IMAGE",
        )
    parts = {split: Part({"name": "image_folder", "images": named[split]}, len(listing.images_below(named[split])))
             for split in in_order(named)}  # fmt: skip
    unlabeled = {f"images without a class in {place}": (len(images), images[0]) for place in listing.folders_in("")
                 if place not in named.values() and (images := listing.images_below(place))}  # fmt: skip
    return Layout("class folders with splits", parts, ", ".join(named.values()), unlabeled)


def _classes(listing: Listing, at: str) -> list[str]:
    """The class folders; empty if a folder has files but no images, or a name that is not a class."""
    folders = listing.folders_in(at)
    if not any(listing.images_below(folder) for folder in folders):
        return []
    has_others = any(
        name_of(folder).lower() in _OTHER_MEANINGS or (listing.has_files(folder) and not listing.images_below(folder))
        for folder in folders
    )
    return [] if has_others else folders  # the reader reports an empty folder
